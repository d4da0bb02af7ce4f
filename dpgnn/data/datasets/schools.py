"""The hundred schools of Facebook100, as the files of sisaman/pyg-datasets are named (data/sources.csv).

Source: Traud et al. (2012), arXiv:1102.2166.
"""

NAMES = """
    American75 Amherst41 Auburn71 BC17 BU10 Baylor93 Berkeley13 Bingham82 Bowdoin47 Brandeis99 Brown11
    Bucknell39 Cal65 Caltech36 Carnegie49 Colgate88 Columbia2 Cornell5 Dartmouth6 Duke14 Emory27 FSU53
    GWU54 Georgetown15 Hamilton46 Harvard1 Haverford76 Howard90 Indiana69 JMU79 JohnsHopkins55 Lehigh96
    MIT8 MSU24 MU78 Maine59 Maryland58 Mich67 Michigan23 Middlebury45 Mississippi66 NYU9 Northeastern19
    Northwestern25 NotreDame57 Oberlin44 Oklahoma97 Penn94 Pepperdine86 Princeton12 Reed98 Rice31
    Rochester38 Rutgers89 Santa74 Simmons81 Smith60 Stanford3 Swarthmore42 Syracuse56 Temple83
    Tennessee95 Texas80 Texas84 Trinity100 Tufts18 Tulane29 UC33 UC61 UC64 UCF52 UCLA26 UCSB37 UCSC68
    UCSD34 UChicago30 UConn91 UF21 UGA50 UIllinois20 UMass92 UNC28 UPenn7 USC35 USF51 USFCA72 UVA16
    Vanderbilt48 Vassar85 Vermont70 Villanova62 Virginia63 Wake73 WashU32 Wellesley22 Wesleyan43
    William77 Williams40 Wisconsin87 Yale4
"""
SCHOOLS = frozenset(NAMES.split())
