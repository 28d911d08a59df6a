import { explicitHostAddress, type HostAddress, type HostCandidate } from './host-address.ts'

/** An address that a person chose while the agent runs: it must be one of this machine, now and later. */
export function chosenHostAddress(address: string, interfaces: readonly HostCandidate[]): HostAddress {
  const none = (why: string): HostAddress => ({
    kind: 'none',
    message: `${address} ${why}; choose another address, or let it be chosen automatically.`,
    rejected: [],
  })
  if (explicitHostAddress(address).kind === 'none') return none('cannot be published to a cluster')
  const owner = interfaces.find((one) => one.address === address)
  if (!owner) return none('is not an address of this machine now')
  return { kind: 'chosen', address, why: `it was chosen by hand, on ${owner.name}`, rejected: [] }
}
