import base64
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay.datasets.official.archives import decompress

MAGIC = b"\x1f\x9d"
CONTENT = b"".join(b"%d," % (i * i) for i in range(300)) + b"a" * 60_000 + b"xyz" * 20_000
# CONTENT by the program `compress -b 10` (ncompress 4.2.4.6), zlib and base64 around it. Its codes
# grow from 9 to 10 bits, fill the table, and clear it once.
COMPRESSED = zlib.decompress(
    base64.b64decode(
        """
eNrtx/k7G3YDAPCtlNI0KyFUHamb6spoxFqtq24mE6TuEHNkrjoSVl0dccQZd4Y64ozUrdXWfaRUMZYWWx5zRkRRVqozvM/z
/g37bd/Pbx+FMoo2dtjbOPEuNB6JHa0f8DE3kREOlhjW0RbKeKSDx1SjtZMzE3XuK+e3OuAyqSjoZA761yUjGSmRGVIa3fvC
JWECxzKAXp1ZphWyCHHNuzsRb+BDYZ5LrDGS1jjLQmnkKA9lKJ79VnCsdWWCgvSJrVYP83/1CyIChZnLrzTPFvXrR6n7CmUk
aOEg7tKO5nM9+tuawzouOGhXtM1kamu0ynAy1G0GsanNhVQK+LN/1NhDvGHqMcVLjQt8MTKG52fmPn8T2C9DFH6Xiu5gvS5t
hD3WaoAFZMqaDsHtDB18bC+rpZ+/FiBgwe7HkAu7dZQ2M/OEQzmL0hKHRhSd8FGEm2MVOk24rNnOdeanQdnyC8nXihO1f0uX
LuHHibYrZbQgjM+6QOAFZt4eImKjYpbyNIuKCMlAZWcPGScnAeKlLUFx+3s6qjK+eg4j2AiE0zoGojvfImYrXYnMM8qTvCHp
fGZeiI0x9HASgOozUPkWv0ThE828nzsXWkgGE5ft0SNhplBFij/CVWTvkGpkhat3Jl8hk9Fx+LE1MU+ioapUlJIkD+4bFihY
YXJFxDy3OHwAftHqQKOjuFR32GX2QvAgRtxGlzkiHitqjF8wWdmK+t6rz4knZUO6Qqzx0shULnObRasMXZicVlHxRCnrF1NR
rR1S+XfDURgfo/kCX9OIEX6ltW+n8mx61r2DBkqOH/v7crSka5BJHOXdeuioJiM3mENNvmeq6aoq5jdBI16y0dxiS+MocmRm
BJmmjo36WSzJy+h4SxiGY/hhsJQw8ju4cdJtvQVfPSbes2+iR8/RVjZOBfaAMR/tl/rdbbajVf09awfvOo91dpCNGAY2MNlz
brpXcA2BsY/9fKAQCv+MfOvQ/tYfVtO2JJEX/HWrdwkJSYa/Jc9uRMNC5zZqlwvUrPCwCkn+as1EErVzxQrpR4PlE2I2YJD2
XTwapznIKnU/WiOVeuDyVIvD3VPOSd3/pFinfd50QZJa8wbN5Mx86VJ8jagQI4H2Fzmr6uptKFwwHdFhoIKZUHplJmchgF6/
73AFGiUHMdq/VUahneKfO9wNJEqgtcQLdvP07SLRmCQrW2qAxI0fJRI2lobloNVOJAypnkrMi6mpipLvNxeZzCkIM1BziV21
F/zzIc7s+vFHtkvo8f6cf/PxAYe4c/xpMeX6yeFqUejJZ15d88nf75/tnBx9eHX99J+Ps6Gnx4frzacn/3zaOQUAAAD+e8qz
LeRjF6kp8qTVSmH5GF48KCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKOi/2S8vfvF/MR8XRVAOiIFE
IRjcPTWncjD5ooJ1pKWOz0gaXNeHQ2qlm2fL3qFArMSrx6hqNlXuDW1+r4u0cC8yrCJq7WgoAre7oV1tqvxm4t8SopH101WW
aZqGL/Q0fquzpyPLRAsYbAa2Oajz9Q3C7BPPoQS5o04mth0/xbAbhz/5ozP0j8Gyq89COC8jd3+fGCc2e/U8OhI6udqlvTSU
CLvsnEFqXWHlXLJ5eMvgm7XxQl2XhQxaO3ey4k76ge23kRvTtY50z7gXnUGzTK/xLLvLT7fmnxFWFp68JG7/2R1/BLV/0BW+
NJqudqep2+Cv9XH6zSJo3It9/lwDoa/X8OannYUhosJXj7sP93hTjfpTt+OO9rdXhspPe3sfHH3c2ZyaUug7PT7dF158dAYu
vRgvqBjgnQD5mleRcBEpvZQo7my5RIb9EFCZLB3Cw6Ug7qsvpyglWy6nqdZilynqbfU+6dq96vR0PRZ2JQPJTV3J0j+op2ff
OlHH55idCVzNsYCnreZaI2mrebYmG/h8jH1gTT7WmbZW4Bo9tlbklrxRU+ydFfgDLSC3gUsj1I5xS0JY89zSsBkN/zLSQkNd
2QPu/Prjh0KivIqf4Zr1lUnyjICqDEU+ryobKbpRnesss1GT7xMUWFsawm+orYiW4ddVFVrzG+i1QQxGfRM/qLGlTXOzsZ1l
vfnkKdd1s6lrj0Fo7j/RZDYPC7m9b2Gppr9ve4VsZLa/uX01uINtQtjqmHVO33r6e3TJ1jNOwmZw12oWoamLV1iy/Zz/dHz7
5SZrs6n7wyQhtOdwpnGn54g7vtN3IsTZ6f8CphU2cE6B2TIAUeN8GIRaQHaHv3LRah2R8GKGs2R93++yFIiQvVHFItm9MWX6
Lfj/AF7kahI=
"""
    )
)


def test_reads_what_compress_wrote():
    assert decompress(COMPRESSED, at_most=len(CONTENT)) == CONTENT


def test_more_bytes_than_allowed_are_refused():
    with pytest.raises(ValueError, match=r"more than 1,000 bytes"):
        decompress(COMPRESSED, at_most=1000)


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"", "does not begin with 1f 9d"),
        (b"\x1f\x8b\x90", "does not begin with 1f 9d"),
        (MAGIC + b"\x91", "codes of 17 bits"),
        (MAGIC + b"\x88", "codes of 8 bits"),
        (MAGIC + b"\x90\xff\xff", "code 511 is not defined yet"),
    ],
)
def test_other_data_are_refused(data, problem):
    with pytest.raises(ValueError, match=problem):
        decompress(data, at_most=1000)


@settings(deadline=None)  # the machine may be busy
@given(st.binary(max_size=200), st.sampled_from([0x90, 0x10, 0x8A]))
def test_any_bytes_give_bytes_or_a_value_error(data, flags):
    try:
        content = decompress(MAGIC + bytes([flags]) + data, at_most=10_000)
    except ValueError:
        return
    assert isinstance(content, bytes)
