-- Messages of channels that were not taken in, each by its channel's own number, with the reason: on record before the
-- checkpoint moves past them. Of strangers who sent too much, refused_senders has the number alone.
-- Runs as the owner role with search_path = <schema>, shared, public.
CREATE TABLE connector_refusals (
    connector_type    text NOT NULL,
    endpoint_identity text NOT NULL,
    message           text NOT NULL,
    why               text NOT NULL,
    refused_at        timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('connector_refusals', 'connector_type', 'endpoint_identity', 'message');
