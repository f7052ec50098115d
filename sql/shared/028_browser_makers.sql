-- Whose token let a browser in: with that token its sessions end as well. Null: the daemon's own of one run.
ALTER TABLE tokens ADD COLUMN made_by uuid;
