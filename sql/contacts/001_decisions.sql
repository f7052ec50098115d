-- What people decided about contacts by this butler: one row for each decision, under which `butlerd undo` finds it.
-- Runs as the owner role with search_path = <schema>, shared, public.
CREATE TABLE contact_decisions (
    id     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    action text NOT NULL,
    what   jsonb NOT NULL,
    at     timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('contact_decisions');
CREATE TRIGGER keep_row AFTER INSERT OR UPDATE OR DELETE ON contact_decisions FOR EACH ROW
    EXECUTE FUNCTION shared.keep_row('id');
