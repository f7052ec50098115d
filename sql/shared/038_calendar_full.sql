-- Calendars that are to be compared with their servers from the beginning.
-- Runs as the owner role with search_path = shared.

-- Whoever syncs next forgets how far the last sync came.
ALTER TABLE calendar_cursors ADD COLUMN read_all boolean NOT NULL DEFAULT false;
