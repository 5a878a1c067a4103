-- What signs the links in messages.

-- name: list_link_keys
-- Every key that is honoured, the one that signs last.
select secret from duly.link_keys order by id;

-- name: add_link_key
-- From now on this one signs.
insert into duly.link_keys default values returning id;

-- name: drop_link_keys
-- Links that older keys signed lead nowhere any more.
delete from duly.link_keys where id < %(newest)s;
