-- Pages of the audit go back in time. Rows come in the order of time, so a few bytes for each hundred pages find them, and
-- writing a row costs no more than before.
CREATE INDEX tool_calls_in_time ON tool_calls USING brin (called_at) WITH (autosummarize = on);
