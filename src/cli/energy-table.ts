import { coverageLine, type EnergyView, type ServiceEnergy } from '../contract/power.ts'
import { formatCost, formatCount, formatEnergy, formatPerToken } from '../contract/format.ts'
import { cleanText } from '../contract/clean-text.ts'
import { columns } from './text.ts'

const estimate =
  'The shares of services are estimates, by the tokens that each had while power was measured: no source tells the power of one process.'
const notReported = 'not reported'

/** What was drawn and done in a time, for people: a few lines about the machine, then a table of its services. */
export function renderEnergy(view: EnergyView): string {
  const { joules, ownJoules, cost, currency, services, message } = view
  const money = (value: number | undefined) => (value === undefined ? '' : `, ${formatCost(value, currency)}`)
  const own = ownJoules === undefined ? '' : `, ${formatEnergy(ownJoules)} of it while no service worked`
  const head = [
    [
      'Machine',
      joules === undefined ? 'not measured' : `${formatEnergy(joules)} (CPU, GPU and ANE)${money(cost)}${own}`,
    ],
    ['Time', view.from === undefined ? coverageLine(view) : `since ${localTime(view.from)}. ${coverageLine(view)}`],
    ...(services.length > 0 && joules !== undefined ? [['Note', estimate]] : []),
    ['', message],
  ]
  const lines = head.map(([label = '', text = '']) => `${label.padEnd(9)}${cleanText(text)}\n`).join('')
  return services.length === 0 ? lines : `${lines}\n${table(view)}`
}

function table({ services, joules, currency }: EnergyView): string {
  const hasCost = services.some(({ cost }) => cost !== undefined)
  // llama-server does not count them.
  const hasRequests = services.some(({ requests }) => requests !== undefined)
  const headings = ['NAME', 'NAMESPACE', 'ENERGY', 'J/TOKEN', 'PROMPT', 'GENERATED']
  const rows = services.map((service) => [
    ...cellsOf(service, joules !== undefined),
    ...(hasRequests ? [countOf(service.requests)] : []),
    ...(hasCost ? [service.cost === undefined ? '-' : formatCost(service.cost, currency)] : []),
  ])
  return columns([...headings, ...(hasRequests ? ['REQUESTS'] : []), ...(hasCost ? ['COST'] : [])], rows)
}

function cellsOf(service: ServiceEnergy, isMeasured: boolean): string[] {
  const { namespace, name, joules, joulesPerGeneratedToken: perToken, promptTokens, generatedTokens } = service
  return [
    name === '' ? 'other services' : name,
    namespace === '' ? '-' : namespace,
    isMeasured ? `~${formatEnergy(joules)}` : 'not measured',
    perToken === undefined ? '-' : `~${formatPerToken(perToken)}`,
    countOf(promptTokens),
    countOf(generatedTokens),
  ]
}

const countOf = (count: number | undefined): string => (count === undefined ? notReported : formatCount(count))

/** As people here read it, by the minute. */
function localTime(iso: string): string {
  const at = new Date(iso)
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`
}
