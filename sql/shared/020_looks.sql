-- What there was when the daemon last looked at what a roster's files have left in a butler's schema, and found nothing that
-- may not stay. While neither the server's tables about it nor the daemon's rules change, it need not look again.
ALTER TABLE butler_roles ADD COLUMN looked bytea;
