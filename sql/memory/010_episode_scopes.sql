-- Episodes of one scope: what programs bring in for themselves is learned from apart from the butler's own.
-- Runs as the owner role with search_path = <schema>, shared, public.

ALTER TABLE memory_episodes ADD COLUMN scope text NOT NULL DEFAULT 'global';

-- Whoever writes an episode says its scope in its metadata, which leave the house with it.
CREATE FUNCTION memory_episode_scope() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.scope := coalesce(NEW.metadata ->> 'scope', NEW.scope, 'global');
    RETURN NEW;
END $$;
CREATE TRIGGER memory_episode_scope BEFORE INSERT ON memory_episodes FOR EACH ROW EXECUTE FUNCTION memory_episode_scope();

CREATE INDEX memory_episodes_of_scope ON memory_episodes (tenant_id, scope, seq DESC) WHERE forgotten_at IS NULL;
