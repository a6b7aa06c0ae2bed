-- The live API tokens of the caller, newest first.
SELECT json_list(array_agg(token_json(token) ORDER BY token.id DESC)) AS body
  FROM tokens AS token
 WHERE token.user_id = %(user_id)s
   AND token.kind = 'api'
   AND is_live(token);
