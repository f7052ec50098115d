-- Identities that several cards state.
-- Runs as the owner role with search_path = shared.

-- Takes a card out of its contact: it speaks of somebody else, who is made and gets these identities of the card. Whom; null:
-- there is no such card, or it speaks of nobody.
CREATE OR REPLACE FUNCTION people_split(which uuid, called text, ids jsonb) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    before uuid;
    made uuid;
BEGIN
    PERFORM shared.contacts_deciding();
    SELECT l.contact INTO before FROM contact_links l
    WHERE l.tenant_id = shared.tenant() AND l.card = which AND l.state = 'linked' FOR UPDATE;
    IF before IS NULL THEN
        RETURN NULL;
    END IF;
    made := contact_make_of(called, NULL, (SELECT k.source FROM contact_cards k
                                           WHERE k.tenant_id = shared.tenant() AND k.id = which));
    UPDATE contact_identities i SET contact_id = made FROM jsonb_to_recordset(ids) AS given (channel text, identity text)
    WHERE i.tenant_id = shared.tenant() AND i.contact_id = before AND i.channel = given.channel AND i.identity = given.identity
      -- What another card says of the contact stays theirs: taken away, it would be struck from that card.
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
                      WHERE l.tenant_id = i.tenant_id AND l.contact = before AND l.card <> which AND o.archived_at IS NULL
                        AND o.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', i.channel, 'identity', i.identity)));
    UPDATE contact_links l SET contact = made WHERE l.tenant_id = shared.tenant() AND l.card = which;
    RETURN made;
END $$;

-- Whose an identity is once a contact has it no more: whom another card that states it speaks of. Null: nobody's.
CREATE FUNCTION contact_identity_heir(whose uuid, on_channel text, as_identity text, OUT contact uuid, OUT source uuid)
LANGUAGE sql STABLE SET search_path = shared, pg_temp AS $$
    SELECT l.contact, o.source FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
    WHERE l.tenant_id = shared.tenant() AND l.contact <> whose AND l.state = 'linked' AND o.archived_at IS NULL
      AND o.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', on_channel, 'identity', as_identity))
    ORDER BY o.created_at, o.id LIMIT 1
$$;
REVOKE EXECUTE ON FUNCTION contact_identity_heir(uuid, text, text) FROM PUBLIC;

-- Forgets an identity of a contact, or lets whom else it reaches have it. `only_of`: if this address book noted it, else
-- whoever did.
CREATE OR REPLACE FUNCTION contact_identity_unsync(which uuid, on_channel text, as_identity text, only_of uuid) RETURNS void
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    i contact_identities;
    heir record;
BEGIN
    SELECT * INTO heir FROM contact_identity_heir(which, on_channel, as_identity);
    FOR i IN SELECT * FROM contact_identities o WHERE o.tenant_id = shared.tenant() AND o.contact_id = which
        AND o.channel = on_channel AND (o.identity = as_identity
             OR on_channel = 'phone' AND regexp_replace(o.identity, '[^0-9+]', '', 'g') = as_identity)
        AND (only_of IS NULL OR o.source = only_of) LOOP
        IF heir.contact IS NULL THEN
            DELETE FROM contact_identities o
            WHERE o.tenant_id = i.tenant_id AND o.channel = i.channel AND o.identity = i.identity;
        ELSE
            UPDATE contact_identities o SET contact_id = heir.contact, source = heir.source
            WHERE o.tenant_id = i.tenant_id AND o.channel = i.channel AND o.identity = i.identity;
        END IF;
    END LOOP;
END $$;

-- An identity keeps the address book that stated it first. Whom no address book has any more is a stranger, whichever it was.
CREATE OR REPLACE FUNCTION contact_card_archive(which uuid) RETURNS void LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    k contact_cards;
    whose uuid;
BEGIN
    UPDATE contact_cards c SET archived_at = shared.clock(), updated_at = shared.clock(), revision = c.revision + 1,
        href = NULL, etag = NULL, base = NULL, sent = NULL, reread = false
    WHERE c.tenant_id = shared.tenant() AND c.id = which RETURNING c.* INTO k;
    UPDATE contact_proposals p SET decided_at = shared.clock(), accepted = false
    WHERE p.tenant_id = shared.tenant() AND p.card = which AND p.decided_at IS NULL;
    SELECT l.contact INTO whose FROM contact_links l WHERE l.tenant_id = shared.tenant() AND l.card = which;
    IF whose IS NULL THEN
        RETURN;
    END IF;
    UPDATE contact_identities i SET contact_id = heir.contact, source = heir.source
    FROM contact_identities o, contact_identity_heir(whose, o.channel, o.identity) heir
    WHERE o.tenant_id = shared.tenant() AND o.contact_id = whose AND o.source IS NOT NULL AND heir.contact IS NOT NULL
      AND i.tenant_id = o.tenant_id AND i.channel = o.channel AND i.identity = o.identity
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards c ON c.tenant_id = l.tenant_id AND c.id = l.card
                      WHERE l.contact = whose AND c.archived_at IS NULL
                        AND c.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', i.channel, 'identity', i.identity)));
    UPDATE contact_identities i SET believed = 'stranger'
    WHERE i.contact_id = whose AND i.source IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
                      WHERE l.contact = whose AND o.archived_at IS NULL
                        AND o.seen -> 'card' @> jsonb_build_array(jsonb_build_object('channel', i.channel, 'identity', i.identity)));
    UPDATE contacts c SET archived_at = shared.clock(), updated_at = shared.clock()
    WHERE c.id = whose AND c.archived_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM contact_identities i WHERE i.contact_id = c.id AND i.source IS NULL)
      AND NOT EXISTS (SELECT 1 FROM contact_links l JOIN contact_cards o ON o.tenant_id = l.tenant_id AND o.id = l.card
                      WHERE l.contact = c.id AND o.archived_at IS NULL);
END $$;
