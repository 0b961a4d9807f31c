"""Statements, and the one-part relations that each reads, for our parser and Spark's own."""

from __future__ import annotations

STATEMENTS = {
    "select window.start as m, sum(a) from s group by window(_timestamp, '1 minute'), user": ["s"],
    "with a as (select * from orders), b(x, y) as (select 1, 2) select * from a join s on a.x = s.y cross join b": [
        "orders",
        "s",
    ],
    "select * from s lateral view explode(b) t as c, d": ["s"],
    "select * from s join lateral (select 1 from t) x": ["s", "t"],
    "select extract(year from at), trim(both ' ' from x) from b where x is distinct from c": ["b"],
    "select * from b join c on exists (select 1 from d), e": ["b", "c", "d", "e"],
    "select * from a left join b on a.x = b.x and a.at between b.at - interval 1 hour and b.at": ["a", "b"],
    "select * from a, b as c, (select 1 from d, e), f where x in (1, 2)": ["a", "b", "d", "e", "f"],
    "select x, y from (a join b using (q)), c order by x, y": ["a", "b", "c"],
    "select 'from q', \"from z\" -- from u\n from `my``t` /* join w */": ["my`t"],
    "select * from range(10), parquet.`/x`, u": ["u"],
    "select * from a union all select b, c from d": ["a", "d"],
    "from s |> where x > 1 |> select x |> join other on x": ["s", "other"],
    "select /*+ broadcast(a) */ * from s tablesample (10 percent) a, t": ["s", "t"],
    "select sum(amount) over w, y from s window w as (partition by x), v as (order by y)": ["s"],
    "select * from s pivot (sum(x) for y in (1, 2)), t": ["s", "t"],
    "select transform(a, x -> x + 1), b from s": ["s"],
    "select substring(name from 2), overlay(a placing b from 3) from s": ["s"],
    "with s as (select * from s where x > 1) select * from s": ["s"],
    "with s as (select * from s join t using (x)) select * from s": ["s", "t"],
    "with u as (select * from v), v as (select * from u) select * from u join v": ["v"],
    "with u(x, y) as (select x, y from U) select * from u": ["U"],
    "with recursive r as (select 1 as x union all select x + 1 from r join s using (x)) select * from r": ["s"],
    "with recursive as (select * from recursive) select * from recursive": ["recursive"],
    "select * from (with s as (select * from t) select * from s) x join s using (x)": ["t", "s"],
    "with u as (with u as (select * from u) select * from u) select * from u": ["u"],
    "select max(x) over w from s window v as (order by y), t as (order by x) union all select x from t": ["s", "t"],
}  # fmt: skip
