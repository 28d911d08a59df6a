import { looksLikeProduction } from '../../contract/cluster.ts'
import type { Answer } from '../../contract/queries.ts'
import { line, nameWithin, separated, submenu, text, type MenuEntry } from './entries.ts'

type ListName = 'contexts' | 'hostAddresses'

/** What the agent answered when the menu was opened, or before; undefined = nothing yet, `problem` = why there is no answer. */
export type Listed<N extends ListName> = Answer<N> | { readonly problem: string } | undefined

/** More do not fit on a screen; the command line has them all. */
const maxChoices = 30

export function contextEntry(listed: Listed<'contexts'>): MenuEntry {
  const reload = line('Reload kubeconfig', { kind: 'command', command: { name: 'reloadKubeconfig' } })
  return submenu(
    'Context',
    separated([listEntries(listed, ({ contexts }) => contexts.map(contextLine), 'metal-agent context list'), [reload]]),
  )
}

const contextLine = ({ name, server, inUse }: Answer<'contexts'>['contexts'][number]): MenuEntry =>
  line(
    `${nameWithin(name, 36)}${!inUse && looksLikeProduction(name) ? ' (asks first)' : ''}`,
    { kind: 'command', command: { name: 'selectContext', context: name } },
    { isChecked: inUse, ...(server !== '' && { toolTip: nameWithin(server, 90) }) },
  )

export function hostAddressEntry(listed: Listed<'hostAddresses'>): MenuEntry {
  return submenu(
    'Host address',
    separated([
      listEntries(listed, addressLines, 'metal-agent host-ip list'),
      [line('Other…', { kind: 'open', at: { view: 'settings', field: 'hostAddress' } })],
    ]),
  )
}

function addressLines({ automatic, message, addresses }: Answer<'hostAddresses'>): MenuEntry[] {
  const inUse = addresses.find((one) => one.inUse)
  const chosen = automatic && inUse ? ` (${inUse.address}, ${inUse.interface})` : ''
  return [
    ...(inUse ? [] : [text(message)]),
    line(
      `Automatic${chosen}`,
      { kind: 'command', command: { name: 'setHostAddress', address: 'automatic' } },
      { isChecked: automatic },
    ),
    ...addresses.filter(({ address }) => isIpv4(address)).map((one) => addressLine(one, automatic)),
  ]
}

function addressLine(
  { address, interface: from, inUse, unfit }: Answer<'hostAddresses'>['addresses'][number],
  automatic: boolean,
): MenuEntry {
  const label = `${address}   ${from}`
  if (unfit !== undefined && !inUse) return text(`${label}: ${unfit}`)
  return line(
    label,
    { kind: 'command', command: { name: 'setHostAddress', address } },
    { isChecked: inUse && !automatic },
  )
}

/** An EndpointSlice of this agent has addresses of this kind alone. */
const isIpv4 = (address: string): boolean => /^\d+(?:\.\d+){3}$/.test(address)

function listEntries<N extends ListName>(
  listed: Listed<N>,
  entriesOf: (answer: Answer<N>) => readonly MenuEntry[],
  command: string,
): readonly MenuEntry[] {
  if (listed === undefined) return [text('The agent has not answered yet; open the menu again.')]
  if ('problem' in listed) return [text(listed.problem)]
  const entries = entriesOf(listed)
  const more = entries.length - maxChoices
  return more > 0 ? [...entries.slice(0, maxChoices), text(`${more} more: ${command}`)] : entries
}
