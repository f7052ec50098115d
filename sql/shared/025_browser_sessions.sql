-- Sessions of browsers are tokens that come as a cookie. They are hashed in another way than a program's tokens
-- (src/access/browser.rs), so that neither opens the other's door; this column says which kind a row is.
ALTER TABLE tokens ADD COLUMN browser boolean NOT NULL DEFAULT false;
