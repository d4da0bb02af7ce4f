"""Networks without privacy, in torch: layers, and the values they compute.

`network.Network` lists the linear parts that clipping must know; `trees` and `forward` evaluate it for one
root at a time or the whole graph. `mlp.MLP` and `gcn.GCN` are the baselines without privacy.
"""
