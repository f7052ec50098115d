-- Facts of one scope are listed by themselves: a project has many, and the household as many more.
-- Runs as the owner role with search_path = <schema>, shared, public.

CREATE INDEX memory_facts_of_scope ON memory_facts (tenant_id, scope, created_at DESC) WHERE forgotten_at IS NULL;
