"""Building benchmarks: marks on labelled images (`overlays`), synthetic scenes (`scenes`), the phantom (`phantom`)."""
