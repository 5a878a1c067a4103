-- The keys that sign links in messages.

-- name: list_link_keys
-- Every valid key; the last one signs.
select secret from duly.link_keys order by id;

-- name: add_link_key
-- Add the key that signs from now on.
insert into duly.link_keys default values returning id;

-- name: delete_link_keys
-- Invalidate the links that older keys signed.
delete from duly.link_keys where id < %(newest)s;
