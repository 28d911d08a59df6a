import { z } from 'zod'
import type { EditableRow } from '../setting-row.ts'
import { absolutePath, hourMs, nonEmpty, number, zeroMeansDefault } from '../setting-schemas.ts'

const currencyMessage = 'must be at most 8 letters or signs such as EUR or €'

export const sleepPolicies = ['never', 'on-mains', 'while-serving'] as const
export type SleepPolicy = (typeof sleepPolicies)[number]

export const powerRows = {
  sleepPolicy: {
    kind: 'choice',
    schema: z.enum(sleepPolicies, { error: 'must be never, on-mains or while-serving' }),
    default: 'on-mains',
    group: 'Power',
    flag: 'sleep-policy',
    help: 'keep this machine from going to sleep while models load or requests run: never, on mains only, or on battery too (while-serving)',
    counts: 'now',
    trust: 'page',
  },
  pauseOnBattery: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    group: 'Power',
    flag: 'pause-on-battery',
    help: 'publish nothing and start nothing while this machine runs on battery; models stay in memory',
    counts: 'now',
    trust: 'page',
  },
  applePowerEnabled: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    group: 'Power',
    flag: 'apple-power-enabled',
    help: 'measure the power of this Mac while somebody looks; for powermetrics sudo must allow it: metal-agent power install',
    counts: 'now',
    // It has root run a program, though none that it chooses.
    trust: 'shell',
  },
  applePowerIntervalMs: {
    kind: 'duration',
    schema: number(1, hourMs, 'must be from 1ms to 1h'),
    default: 1_000,
    group: 'Power',
    flag: 'apple-power-interval',
    flagTakes: zeroMeansDefault,
    help: 'how often power is measured: 500ms, 1s, 2s, 5s or 10s, and for any other the next longer',
    counts: 'now',
    trust: 'page',
  },
  powerSource: {
    kind: 'choice',
    schema: z.enum(['powermetrics', 'macmon'], { error: 'must be powermetrics or macmon' }),
    default: 'powermetrics',
    group: 'Power',
    flag: 'power-source',
    help: 'what measures power: powermetrics, which root has to run, or macmon, which has to be installed (brew install macmon)',
    counts: 'now',
    // It chooses which program is run, and whether root runs it.
    trust: 'shell',
  },
  macmon: {
    kind: 'executable',
    schema: absolutePath,
    defaultMeans: '/opt/homebrew/bin, then /usr/local/bin, then on Linux PATH and /home/linuxbrew/.linuxbrew/bin',
    group: 'Power',
    flag: 'macmon-bin',
    flagTakes: {
      what: 'a name without a slash is looked for in PATH',
      why: 'so does --llama-server',
      schema: nonEmpty,
    },
    help: 'path of the macmon binary',
    counts: 'now',
    trust: 'shell',
  },
  energyLedger: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    group: 'Power',
    flag: 'energy-ledger',
    help: 'measure power, where that is on, also while nobody looks, every 10s, and count tokens every minute, for metal-agent energy',
    counts: 'now',
    // As the switch of power itself.
    trust: 'shell',
  },
  energyPricePerKwh: {
    kind: 'number',
    schema: number(0, 1_000_000, 'must be a price from 0 to 1000000'),
    defaultMeans: 'no costs are shown',
    group: 'Power',
    flag: 'energy-price',
    help: 'price of a kilowatt-hour, such as 0.32',
    counts: 'now',
    trust: 'page',
  },
  energyCurrency: {
    kind: 'text',
    schema: z.string({ error: currencyMessage }).regex(/^[\p{L}\p{Sc}.]{1,8}$/u, currencyMessage),
    group: 'Power',
    flag: 'energy-currency',
    help: 'what the price is in, such as EUR',
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
