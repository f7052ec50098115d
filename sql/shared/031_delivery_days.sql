-- How many deliveries each day had: of the butler that asks, or all where it is the messenger. Numbers alone, so that
-- nobody's words are read by it.
-- Runs as the owner role with search_path = shared.

CREATE INDEX outbox_made ON outbox (tenant_id, created_at);

CREATE FUNCTION delivery_days(days integer) RETURNS TABLE (day date, channel text, state text, deliveries bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT (o.created_at AT TIME ZONE current_setting('TimeZone'))::date, o.channel,
           CASE WHEN o.reason = 'cancelled' THEN 'called_off' ELSE o.state END, count(*)
    FROM shared.outbox o JOIN shared.butler_roles r ON r.role = session_user
    WHERE o.tenant_id = shared.tenant() AND (o.origin = r.butler OR r.butler = 'messenger')
      AND o.created_at >= (shared.today() - days + 1)::timestamp AT TIME ZONE current_setting('TimeZone')
    GROUP BY 1, 2, 3
$$;
