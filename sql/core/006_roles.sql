-- What a butler's role may do with what the house keeps in its schema is granted after each file (src/store/sql/roles.rs).
-- Runs as the owner role with search_path = <schema>, shared, public.

CREATE TRIGGER keeps_label BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION shared.session_keeps_label();
