-- What can be taken back is shown in pages, by the transaction that changed it. A page looks for a butler's transactions one
-- by one, each by this index, however many rows each of them changed and whatever others did meanwhile.
-- Runs as the owner role with search_path = shared.
CREATE INDEX row_changes_of_butler ON row_changes (schema, tenant_id, tx_at, txid);
