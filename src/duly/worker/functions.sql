-- No functions, only rights on the list of workers: they write it, every role may read it.

grant select on duly.workers to {worker}, {api}, {readonly};
grant insert, update, delete on duly.workers to {worker};
