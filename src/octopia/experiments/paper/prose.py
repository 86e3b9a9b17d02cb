"""The paragraphs of the report that do not depend on results: method, bounds and threats to validity."""

from __future__ import annotations

OVERLAY = (
    "All studies use the paper's overlay S_e: 14 regions and 4 clusters, 56 brokers, 52 aLinks and 84 iLinks. "
    "Publishers and subscribers are placed at random. All algorithms play the same workload, message by message, in a "
    "simulator whose brokers are those of the network. The seed and the selectivity of a study determine which "
    "subscriber wants which publisher; other prices change publications and filters, but hardly affect the counts."
)
ALGORITHMS = (
    "SPR and IDR are OctopiA's static and dynamic routing, TID-S and TID-D those of TID-based routing. Adaptive is "
    "OctopiA's third algorithm, which the paper does not have; in the studies of publishers and subscribers it is a "
    "system of its own, because it sends more control messages. TID-D sends one copy of a publication per tree and "
    "next hop. PADRES keeps one copy per next hop, which loses deliveries; this variant is run in bursts only, and "
    "the audit counts the losses."
)
METRICS = (
    "Delays are means in virtual time. In bursts, all deliveries and those of the burst are reported apart, because "
    "nearly all deliveries are of other publishers. Deliveries are grouped in order of arrival. A run is stable when "
    "the last group with a delay above one second has arrived, counted from the start of the burst; for the burst "
    "alone, when its last delivery above one second has. A publication arrives within a second if its last delivery "
    "does. Queue lengths are means over links and over samples from the start of the burst to the last delivery of the "
    "run, so they also count the time after the burst; target links are those on "
    "static paths from the bursty publisher to its subscribers. Matching and path selection are measured on the real "
    "code by the clock of this machine. For dynamic routing, path selection is timed with all links congested, because "
    "otherwise there is nothing to select."
)
HOSTS = (
    "16 of the 56 brokers are inner ones, with several aLinks. Where links share a sender, the result depends on the "
    "kind of host broker, so inner and edge hosts are reported separately."
)
SCALING = (
    "Smaller bursts keep the load of the links. At full size almost every broker wants almost every publication, so a "
    "link from an inner to an edge broker is half full before the burst. With 1,000 subscribers it would be a "
    "quarter full, and other links would decide. So the scale laptop has 4,000 subscribers, and the 1,000 of the "
    "scale tiny want 16 instead of 4 of 100 publishers each: a broker then wants 94% of all publications. Bursts are "
    "shorter; all rates and the cost of sending stay as they are. Ordinary traffic also ends earlier, at the scale "
    "tiny before the burst has drained."
)
ON_BOUNDS = (
    "A sender of rate μ with an ordinary load λ carries N copies of a burst in N / (μ - λ). Over static paths, the "
    "slowest sender of the burst decides. Over any paths, a burst must cross every cut between its host and a "
    "subscriber, and an edge broker has as many links as there are clusters: N / (kμ - λ). At full size, with a "
    "sender per link, these are 304 s and 43.3 s for evenly placed publishers. The first is a bound for SPR, whose "
    "paths are static, and under one sender per link also for IDR, which cannot leave the static aLinks. TID has other "
    "paths. The second holds for any routing. The bounds are times until queues are empty; delays are below one second "
    "up to μ / (μ - λ) seconds earlier, so a run over static paths may be stable up to two seconds before its bound."
)
SHARED = (
    "Runs that cannot differ are not repeated. Senders take time for publications only, so broker-sender equals links "
    "in the studies of publishers and subscribers. Trees are TID's, so OctopiA's results in all studies but that of "
    "publishers are the same under race-trees and links. TID-D is not run in bursts under race-trees: where trees "
    "differ that much, its copies multiply, and queues keep growing after the last publication (benchmarks/races.py "
    "counts both). The paper's TID-D recovers. So race-trees, which explains most of the paper's delays and messages "
    "without congestion, cannot explain its bursts with our TID-D."
)
THREATS = (
    "The costs of the models are assumptions. The cost of sending was inferred from the paper: for 157 s after bursts "
    "of 50,000 publications began, it saw no return to normal. If a link carried nothing else, this implies at least "
    "3.1 ms per publication; with the ordinary traffic of our workload, 2.05 ms are enough. We chose 3 ms. All times "
    "in seconds depend on this.",
    "No number was fitted to the claims, but the models were chosen after a re-implementation had found which "
    "assumptions move results towards the paper's. So where a model agrees, it suffices for the claim; it does not "
    "follow that the paper's testbed worked that way.",
    "PADRES has one thread per neighbour with synchronous calls, and 8 brokers with their clients shared a machine of "
    "12 cores. A resource that links share is therefore plausible, but the paper does not prove it. Neither does it "
    "say how long TID's trees were.",
    "The paper does not publish its workload. How many subscribers want a publication, and where they are, is ours.",
    "Output queues are unbounded in all runs, and links do not fail. On the network, OctopiA bounds its queues.",
    "A seed is one placement of clients, with one inner and one edge broker as hosts of the burst. With one seed, a "
    "result has no spread; with three, the spread is no confidence interval.",
    "Our matcher and our path selection are other programs than those of PADRES, in another language. Only ratios are "
    "compared.",
)
