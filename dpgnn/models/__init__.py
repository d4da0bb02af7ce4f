"""Networks in torch, without privacy mechanisms.

`network.Network` lists the linear parts that clipping needs; `trees` and `forward` evaluate it root by root
or on the whole graph. `mlp.MLP` and `gcn.GCN` are the baselines without privacy.
"""
