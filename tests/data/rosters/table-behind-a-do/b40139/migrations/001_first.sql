DO $$ BEGIN
    EXECUTE 'CREATE TABLE ' || 'things (id uuid)';
END $$;
