-- What people and programs called in the course of a request, outside of its sessions: few rows among all calls, which the
-- page of a message looks for.
CREATE INDEX tool_calls_of_request ON tool_calls (request_id) WHERE session_id IS NULL;
