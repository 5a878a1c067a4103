"""Which addresses are public: channels connect to no others, so that a URL cannot reach services of this network."""

import ipaddress

NON_PUBLIC_NETWORKS = tuple(  # in addition to those that `is_global` excludes in every supported Python
    ipaddress.ip_network(each)
    for each in (
        "100.64.0.0/10",  # carrier-grade NAT
        "168.63.129.16/32",  # platform services of Azure
        "192.0.0.0/24",  # IETF protocol assignments; metadata service of Oracle Cloud
        "::/3",  # with the next two, all of IPv6 except 2000::/3, the only range of public addresses
        "4000::/2",
        "8000::/1",
        "3fff::/20",  # documentation
    )
)
NAT64_NETWORK = ipaddress.ip_network("64:ff9b::/96")  # embeds an IPv4 address


def is_public(text: str) -> bool:
    """Return whether an address is publicly routable; of one that embeds an IPv4 address, whether that is."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if embedded is None and address in NAT64_NETWORK:
            embedded = ipaddress.ip_address(int(address) & 0xFFFFFFFF)
        if embedded is not None:
            return is_public(str(embedded))
    return address.is_global and not address.is_multicast and not any(address in each for each in NON_PUBLIC_NETWORKS)
