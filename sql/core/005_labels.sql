-- Every row gets an audience beside its trust: see sql/shared/012_labels.sql.
-- Runs as the owner role with search_path = <schema>, shared, public.

SELECT shared.label_tables();

-- Sessions begin with the label of their request; what they are shown joins it. Before labels, all that a session of
-- somebody outside had read is the household's own.
ALTER TABLE sessions DROP COLUMN private_at;
