from collections.abc import Callable

def run(arrays: tuple[object, ...], watch: Callable[[int], None] | None, interval: int, /) -> int: ...
def serve(
    arrays: tuple[object, ...],
    sizes: tuple[int, int, int, int, int],
    prefill: Callable[[int, int, int], int],
    decode: Callable[[int, int, int, int], object],
    look: Callable[[], object] | None,
    portion: int,
    /,
) -> None: ...
