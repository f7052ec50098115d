-- Calls that another tool takes back are shown in pages, among those whose rows are put back, by their transaction.
-- Runs as the owner role with search_path = <schema>, shared, public.
CREATE INDEX call_undos_to_take_back ON call_undos (tenant_id, tx_at, txid) WHERE state IN ('ready', 'undoing');
