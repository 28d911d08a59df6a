import type { Answer } from '../../../contract/queries.ts'
import { chooseHostAddress, type HostAddress, type HostCandidate } from '../../publishing/host-address.ts'

/** Every address of this machine, and why one should not be published. */
export function hostAddresses(
  interfaces: readonly HostCandidate[],
  { address, automatic }: { readonly address: HostAddress; readonly automatic: boolean },
): Answer<'hostAddresses'> {
  const inUse = address.kind === 'chosen' ? address.address : undefined
  const { rejected } = chooseHostAddress(interfaces, inUse)
  const reasons = new Map(rejected.map((one) => [one.address, one.reason]))
  return {
    automatic,
    message:
      address.kind === 'chosen'
        ? [`${address.address}: ${address.why}.`, address.warning].filter(Boolean).join(' ')
        : address.message,
    addresses: interfaces.map((one) => {
      const unfit = reasons.get(one.address)
      return {
        address: one.address,
        interface: one.name,
        inUse: one.address === inUse,
        ...(unfit !== undefined && { unfit }),
      }
    }),
  }
}
