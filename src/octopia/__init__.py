"""OctopiA: content-based publish/subscribe on structured cyclic overlays."""
