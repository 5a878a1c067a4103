-- From here on as the owner of what is created.
set local role {owner};

create table if not exists duly.schema_object (
    branch text not null,
    object text not null,
    sha256 text not null,
    constraint pk_schema_object primary key (branch, object)
);
comment on table duly.schema_object is
    'The hash of each function, trigger, policy and view, and of the grants of a branch, as they were applied last.';
