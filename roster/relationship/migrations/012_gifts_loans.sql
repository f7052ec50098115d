-- Gifts, from the idea to the thanks, and what people lent each other.

-- How far a gift has come, in the order that it goes.
CREATE FUNCTION gift_steps() RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT ARRAY['idea', 'purchased', 'wrapped', 'given', 'thanked'] $$;

CREATE TABLE gifts (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id  uuid NOT NULL REFERENCES contacts (id),
    description text NOT NULL CHECK (description <> ''),
    occasion    text,
    status      text NOT NULL DEFAULT 'idea' CHECK (status IN ('idea', 'purchased', 'wrapped', 'given', 'thanked')),
    price       numeric CHECK (price >= 0),
    currency    text,
    url         text,
    given_on    date,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz,
    deleted_at  timestamptz,
    revisions   jsonb NOT NULL DEFAULT '[]',
    CHECK (price IS NULL OR currency IS NOT NULL)
);
COMMENT ON COLUMN gifts.status IS 'idea, purchased, wrapped, given, thanked: it goes in this order.';
COMMENT ON COLUMN gifts.revisions IS 'Which status it had before, and until when, oldest first.';
SELECT shared.tenant_table('gifts');
CREATE INDEX gifts_of ON gifts (tenant_id, contact_id, created_at);

-- Notes a gift. What is planned already for the same occasion is kept once; what was given once may be given again, and
-- `given_before` then says when.
CREATE FUNCTION gift_put(for_contact uuid, what text, on_occasion text, cost numeric, in_currency text, link text,
                         OUT g gifts, OUT already boolean, OUT given_before date)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    whose CONSTANT uuid := writing_about('contact_id', for_contact);
    thing CONSTANT text := short_text('description', what, 500);
    event CONSTANT text := short_text('occasion', on_occasion, 100);
    code CONSTANT text := shared.currency('currency', in_currency);
    address CONSTANT text := short_text('url', link, 2000);
BEGIN
    IF thing IS NULL THEN
        RAISE EXCEPTION 'A gift needs a description that says what it is.' USING ERRCODE = '22023';
    ELSIF cost IS NOT NULL AND code IS NULL THEN
        RAISE EXCEPTION 'A price needs its currency: give currency, such as EUR.' USING ERRCODE = '22023';
    ELSIF address !~* '^https?://' THEN
        RAISE EXCEPTION 'url is "%". It must be a web address that begins with https://.', left(address, 100)
            USING ERRCODE = '22023';
    END IF;
    SELECT max(o.given_on) INTO given_before FROM gifts o
     WHERE o.contact_id = whose AND o.deleted_at IS NULL AND lower(o.description) = lower(thing);
    UPDATE gifts o
       SET price = coalesce(shared.money('price', cost, code), o.price), currency = coalesce(code, o.currency),
           url = coalesce(address, o.url), occasion = coalesce(o.occasion, event), updated_at = shared.clock()
     WHERE o.id = (SELECT t.id FROM gifts t
                   WHERE t.contact_id = whose AND t.deleted_at IS NULL AND lower(t.description) = lower(thing)
                     AND t.status IN ('idea', 'purchased', 'wrapped')
                     AND (event IS NULL OR t.occasion IS NULL OR lower(t.occasion) = lower(event))
                   ORDER BY t.occasion IS NULL, t.created_at, t.id LIMIT 1)
    RETURNING o.* INTO g;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO gifts (contact_id, description, occasion, price, currency, url)
        VALUES (whose, thing, event, shared.money('price', cost, code), code, address) RETURNING * INTO g;
    END IF;
END $$;

-- Moves a gift on; back only as a correction.
CREATE FUNCTION gift_move(which uuid, to_status text, corrected boolean, on_day text, OUT g gifts)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    there CONSTANT int := array_position(gift_steps(), to_status);
    over CONSTANT int := array_position(gift_steps(), 'given');
    day CONSTANT date := shared.day('given_on', on_day);
    here int;
BEGIN
    IF there IS NULL THEN
        RAISE EXCEPTION 'status is "%". It must be one of %.', to_status, array_to_string(gift_steps(), ', ')
            USING ERRCODE = '22023';
    END IF;
    SELECT o.* INTO g FROM gifts o WHERE o.id = which FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no gift with that id; gift_list shows them.' USING ERRCODE = '22023';
    ELSIF g.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'The gift "%" is deleted; gift_restore brings it back first.', g.description
            USING ERRCODE = '22023';
    END IF;
    here := array_position(gift_steps(), g.status);
    IF there < here AND NOT coalesce(corrected, false) THEN
        RAISE EXCEPTION 'The gift "%" is % already; it goes on as %, never back to %. If it was noted by mistake, set '
            'correction to true.', g.description, g.status,
            coalesce(nullif(array_to_string((gift_steps())[here + 1:], ' or '), ''), 'it is'), to_status
            USING ERRCODE = '22023';
    ELSIF day IS NOT NULL AND there < over THEN
        RAISE EXCEPTION 'given_on goes with the status given or thanked, not with %.', to_status USING ERRCODE = '22023';
    ELSIF day > shared.today() THEN
        RAISE EXCEPTION 'given_on % lies in the future. Set the status once it is given.', day USING ERRCODE = '22023';
    END IF;
    IF here <> there OR day <> g.given_on THEN
        UPDATE gifts o
           SET status = to_status, updated_at = shared.clock(),
               given_on = CASE WHEN there >= over THEN coalesce(day, o.given_on, shared.today()) END,
               revisions = o.revisions || jsonb_build_object('status', o.status, 'given_on', o.given_on,
                                                             'until', shared.clock())
         WHERE o.id = which RETURNING o.* INTO g;
    END IF;
END $$;

-- Takes a gift off the list (`gone`) or brings it back.
CREATE FUNCTION gift_keep(which uuid, gone boolean, OUT g gifts) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE gifts o SET deleted_at = CASE WHEN gone THEN coalesce(o.deleted_at, shared.clock()) END
     WHERE o.id = which RETURNING o.* INTO g;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no gift with that id; gift_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with deleted set to true the deleted ones' END USING ERRCODE = '22023';
    END IF;
END $$;

-- Money that somebody lent to somebody. Where a contact is missing it is the person.
CREATE TABLE loans (
    id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    lender_contact_id   uuid REFERENCES contacts (id),
    borrower_contact_id uuid REFERENCES contacts (id),
    amount              numeric NOT NULL CHECK (amount > 0),
    currency            text NOT NULL,
    description         text,
    lent_on             date NOT NULL,
    due_on              date,
    settled_at          timestamptz,
    created_at          timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at          timestamptz,
    deleted_at          timestamptz,
    CHECK (lender_contact_id IS NOT NULL OR borrower_contact_id IS NOT NULL)
);
COMMENT ON COLUMN loans.lender_contact_id IS 'Who gave the money; null: the person.';
COMMENT ON COLUMN loans.borrower_contact_id IS 'Who got it and owes it; null: the person.';
SELECT shared.tenant_table('loans');
CREATE INDEX loans_by_lender ON loans (tenant_id, lender_contact_id);
CREATE INDEX loans_by_borrower ON loans (tenant_id, borrower_contact_id);

-- A loan as it is shown.
CREATE FUNCTION loan_shown(l loans) RETURNS TABLE (
    id uuid, contact_id uuid, contact_name text, direction text, amount numeric, currency text, amount_cents bigint,
    description text, lender_contact_id uuid, lender text, borrower_contact_id uuid, borrower text, lent_on date,
    due_on date, overdue boolean, settled boolean, settled_at timestamptz)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT l.id, CASE WHEN l.lender_contact_id IS NULL THEN b.id WHEN l.borrower_contact_id IS NULL THEN a.id END,
           CASE WHEN l.lender_contact_id IS NULL THEN b.name WHEN l.borrower_contact_id IS NULL THEN a.name END,
           CASE WHEN l.lender_contact_id IS NULL THEN 'lent' WHEN l.borrower_contact_id IS NULL THEN 'borrowed'
                ELSE 'between others' END,
           l.amount, l.currency, (l.amount * 10 ^ shared.currency_digits(l.currency))::bigint, l.description,
           a.id, coalesce(a.name, 'the owner'), b.id, coalesce(b.name, 'the owner'), l.lent_on, l.due_on,
           l.settled_at IS NULL AND coalesce(l.due_on < shared.today(), false), l.settled_at IS NOT NULL, l.settled_at
      FROM (SELECT) one
      LEFT JOIN contacts a ON a.id = l.lender_contact_id
      LEFT JOIN contacts b ON b.id = l.borrower_contact_id
$$;

-- Who lends or borrows, as a loan's row has them: the person's own contact is null.
CREATE FUNCTION loan_party(argument text, which uuid) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found CONSTANT uuid := contact_there(argument, which);
BEGIN
    RETURN (SELECT c.id FROM contacts c WHERE c.id = found AND NOT c.is_owner);
END $$;

-- Notes a loan. The same one of the same day, still open, is kept once.
CREATE FUNCTION loan_put(with_contact uuid, sum numeric, which_way text, what text, lender uuid, borrower uuid,
                         cents bigint, in_currency text, on_day text, until_day text, OUT l loans, OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    code CONSTANT text := shared.currency('currency', in_currency);
    note CONSTANT text := short_text('description', what, 500);
    day CONSTANT date := coalesce(shared.day('lent_on', on_day), shared.today());
    due CONSTANT date := shared.day('due_on', until_day);
    exact numeric;
    giver uuid;
    taker uuid;
BEGIN
    IF (sum IS NULL) = (cents IS NULL) THEN
        RAISE EXCEPTION 'Give the amount once: either amount (20.50) or amount_cents (2050).' USING ERRCODE = '22023';
    END IF;
    exact := shared.money('amount', coalesce(sum, cents / 10::numeric ^ shared.currency_digits(code)), code);
    IF exact = 0 THEN
        RAISE EXCEPTION 'The amount is 0. A loan is more than nothing.' USING ERRCODE = '22023';
    ELSIF day > shared.today() THEN
        RAISE EXCEPTION 'lent_on % lies in the future. Note a loan once the money has changed hands.', day
            USING ERRCODE = '22023';
    ELSIF due < day THEN
        RAISE EXCEPTION 'due_on % lies before the day of the loan, %.', due, day USING ERRCODE = '22023';
    ELSIF with_contact IS NULL AND lender IS NULL AND borrower IS NULL THEN
        RAISE EXCEPTION 'Say between whom: contact_id with direction (lent or borrowed), or lender_contact_id and '
            'borrower_contact_id, of which the one left out is the owner.' USING ERRCODE = '22023';
    ELSIF lender IS NULL AND borrower IS NULL THEN
        IF which_way IS NULL THEN
            RAISE EXCEPTION 'Say which way the money went: direction lent (the owner gave it) or borrowed (the owner '
                'got it).' USING ERRCODE = '22023';
        END IF;
        giver := CASE WHEN which_way = 'borrowed' THEN with_contact END;
        taker := CASE WHEN which_way = 'lent' THEN with_contact END;
    ELSE
        giver := lender;
        taker := borrower;
        IF which_way = 'lent' AND giver IS NOT NULL OR which_way = 'borrowed' AND taker IS NOT NULL
           OR with_contact IS NOT NULL AND with_contact IS DISTINCT FROM giver AND with_contact IS DISTINCT FROM taker THEN
            RAISE EXCEPTION 'contact_id or direction contradicts lender_contact_id and borrower_contact_id. Give either '
                'the first two or the last two.' USING ERRCODE = '22023';
        END IF;
    END IF;
    giver := loan_party('lender_contact_id', giver);
    taker := loan_party('borrower_contact_id', taker);
    IF giver IS NOT DISTINCT FROM taker THEN
        RAISE EXCEPTION 'Lender and borrower are the same. Nobody owes money to themselves.' USING ERRCODE = '22023';
    END IF;
    PERFORM writing_about('contact_id', w.id) FROM unnest(ARRAY[giver, taker]) w(id) WHERE w.id IS NOT NULL ORDER BY w.id;
    UPDATE loans o SET due_on = coalesce(due, o.due_on), description = coalesce(o.description, note),
           updated_at = shared.clock()
     WHERE o.id = (SELECT t.id FROM loans t
                   WHERE t.lender_contact_id IS NOT DISTINCT FROM giver
                     AND t.borrower_contact_id IS NOT DISTINCT FROM taker
                     AND t.amount = exact AND t.currency = code AND t.lent_on = day
                     AND (note IS NULL OR t.description IS NULL OR lower(t.description) = lower(note))
                     AND t.settled_at IS NULL AND t.deleted_at IS NULL
                   ORDER BY t.created_at, t.id LIMIT 1)
    RETURNING o.* INTO l;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO loans (lender_contact_id, borrower_contact_id, amount, currency, description, lent_on, due_on)
        VALUES (giver, taker, exact, code, note, day, due) RETURNING * INTO l;
    END IF;
END $$;

-- Notes that a loan is paid back, or that it isn't after all.
CREATE FUNCTION loan_paid(which uuid, paid boolean, OUT l loans, OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    SELECT o.* INTO l FROM loans o WHERE o.id = which FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no loan with that id; loan_list shows them.' USING ERRCODE = '22023';
    ELSIF l.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'That loan is deleted; loan_restore brings it back first.' USING ERRCODE = '22023';
    END IF;
    already := (l.settled_at IS NOT NULL) = paid;
    IF NOT already THEN
        UPDATE loans o SET settled_at = CASE WHEN paid THEN shared.clock() END, updated_at = shared.clock()
         WHERE o.id = which RETURNING o.* INTO l;
    END IF;
END $$;

-- Takes a loan out of the record (`gone`) or back into it.
CREATE FUNCTION loan_keep(which uuid, gone boolean, OUT l loans) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE loans o SET deleted_at = CASE WHEN gone THEN coalesce(o.deleted_at, shared.clock()) END
     WHERE o.id = which RETURNING o.* INTO l;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no loan with that id; loan_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with deleted set to true the deleted ones' END USING ERRCODE = '22023';
    END IF;
END $$;
