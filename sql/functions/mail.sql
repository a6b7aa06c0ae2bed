-- Mail.

-- Return the bytes of the long values of an e-mail, for fits_page().
CREATE OR REPLACE FUNCTION text_bytes(mail mail) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT octet_length(mail.snippet) + pg_column_size(mail.recipients)
$$;

-- An e-mail, as lists show it.
CREATE OR REPLACE FUNCTION mail_json(mail mail) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   mail.id,
                   mail.sender,
                   mail.recipients,
                   mail.subject,
                   mail.snippet,
                   mail.read,
                   iso(mail.received_at)
               )::mail_document
           )
$$;
