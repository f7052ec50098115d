-- Notes about people, and what the person means to do for them.

CREATE TABLE notes (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id uuid NOT NULL REFERENCES contacts (id),
    title      text,
    content    text NOT NULL CHECK (content <> ''),
    emotion    text,
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at timestamptz
);
COMMENT ON COLUMN notes.emotion IS 'How the person or the contact felt about it, in one word.';
SELECT shared.tenant_table('notes');
CREATE INDEX notes_of ON notes (tenant_id, contact_id, created_at);

-- Writes a note; the same text about the same contact is kept once.
CREATE FUNCTION note_put(for_contact uuid, text_of text, body_of text, headed text, felt text, OUT n notes,
                         OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    whose CONSTANT uuid := writing_about('contact_id', for_contact);
    of_content CONSTANT text := short_text('content', text_of, 20000);
    of_body CONSTANT text := short_text('body', body_of, 20000);
    what CONSTANT text := coalesce(of_content, of_body);
    head CONSTANT text := short_text('title', headed, 200);
    mood CONSTANT text := short_text('emotion', felt, 60);
BEGIN
    IF what IS NULL THEN
        RAISE EXCEPTION 'A note needs its text: give content.' USING ERRCODE = '22023';
    ELSIF of_content <> of_body THEN
        RAISE EXCEPTION 'content and body are two names of the same text and differ here. Give content alone.'
            USING ERRCODE = '22023';
    END IF;
    UPDATE notes o SET title = coalesce(head, o.title), emotion = coalesce(mood, o.emotion)
     WHERE o.id = (SELECT t.id FROM notes t
                   WHERE t.contact_id = whose AND t.deleted_at IS NULL AND t.content = what
                   ORDER BY t.created_at, t.id LIMIT 1)
    RETURNING o.* INTO n;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO notes (contact_id, title, content, emotion) VALUES (whose, head, what, mood) RETURNING * INTO n;
    END IF;
END $$;

-- Takes a note away (`gone`) or brings it back.
CREATE FUNCTION note_keep(which uuid, gone boolean, OUT n notes) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE notes o SET deleted_at = CASE WHEN gone THEN coalesce(o.deleted_at, shared.clock()) END
     WHERE o.id = which RETURNING o.* INTO n;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no note with that id; note_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with deleted set to true the deleted ones' END USING ERRCODE = '22023';
    END IF;
END $$;

-- The words that are searched for, at least one, as folded() has them.
CREATE FUNCTION search_words(query text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    wanted CONSTANT text[] := words_of(query);
BEGIN
    IF wanted = '{}' THEN
        RAISE EXCEPTION 'query is "%", which holds no word to search for.', left(query, 60) USING ERRCODE = '22023';
    END IF;
    RETURN wanted;
END $$;

CREATE TABLE tasks (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id   uuid NOT NULL REFERENCES contacts (id),
    title        text NOT NULL CHECK (title <> ''),
    description  text,
    due_on       date,
    completed_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at   timestamptz,
    deleted_at   timestamptz
);
SELECT shared.tenant_table('tasks');
CREATE INDEX tasks_of ON tasks (tenant_id, contact_id, created_at);

-- Notes a task; of one title there is one open task for a contact.
CREATE FUNCTION task_put(for_contact uuid, called text, at_length text, until_day text, OUT t tasks, OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    whose CONSTANT uuid := writing_about('contact_id', for_contact);
    what CONSTANT text := short_text('title', called, 200);
    more CONSTANT text := short_text('description', at_length, 5000);
    day CONSTANT date := shared.day('due_on', until_day);
BEGIN
    IF what IS NULL THEN
        RAISE EXCEPTION 'A task needs a title that says what is to be done.' USING ERRCODE = '22023';
    ELSIF day < shared.today() THEN
        RAISE EXCEPTION 'due_on % is over (today is %). Check the year, or leave due_on out.', day, shared.today()
            USING ERRCODE = '22023';
    END IF;
    UPDATE tasks o SET description = coalesce(more, o.description), due_on = coalesce(day, o.due_on),
           updated_at = shared.clock()
     WHERE o.id = (SELECT s.id FROM tasks s
                   WHERE s.contact_id = whose AND s.deleted_at IS NULL AND s.completed_at IS NULL
                     AND lower(s.title) = lower(what)
                   ORDER BY s.created_at, s.id LIMIT 1)
    RETURNING o.* INTO t;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO tasks (contact_id, title, description, due_on) VALUES (whose, what, more, day) RETURNING * INTO t;
    END IF;
END $$;

-- Notes that a task is done, or that it isn't after all.
CREATE FUNCTION task_done(which uuid, done boolean, OUT t tasks, OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    SELECT o.* INTO t FROM tasks o WHERE o.id = which FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no task with that id; task_list shows them.' USING ERRCODE = '22023';
    ELSIF t.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'The task "%" is deleted; task_restore brings it back first.', t.title USING ERRCODE = '22023';
    END IF;
    already := (t.completed_at IS NOT NULL) = done;
    IF NOT already THEN
        UPDATE tasks o SET completed_at = CASE WHEN done THEN shared.clock() END, updated_at = shared.clock()
         WHERE o.id = which RETURNING o.* INTO t;
    END IF;
END $$;

-- Takes a task away (`gone`) or brings it back.
CREATE FUNCTION task_keep(which uuid, gone boolean, OUT t tasks) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE tasks o SET deleted_at = CASE WHEN gone THEN coalesce(o.deleted_at, shared.clock()) END
     WHERE o.id = which RETURNING o.* INTO t;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no task with that id; task_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with deleted set to true the deleted ones' END USING ERRCODE = '22023';
    END IF;
END $$;
