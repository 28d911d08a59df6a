import { describe, expect, test } from 'vitest'
import type { ApiKeyState } from '../../../src/agent-core/gateway/api-keys.ts'
import type { DoorState } from '../../../src/agent-core/gateway/doors.ts'
import { listenObstacle, unreached, type ReachInputs } from '../../../src/agent-core/reconcile/reach.ts'
import type { Way } from '../../../src/agent-core/publishing/relay.ts'
import type { ServerRuntime } from '../../../src/agent-core/servers/probe.ts'
import type { ListenMode } from '../../../src/contract/settings-table.ts'

const ip = '10.0.0.1'
const known: ApiKeyState = { kind: 'known', sha256: 'a' }
const open: DoorState = { kind: 'open' }
const closed: DoorState = { kind: 'closed', message: 'Nobody listens.' }

interface Given {
  readonly ip?: string | undefined
  readonly warning?: string
  readonly secret?: string
  readonly apiKey?: ApiKeyState
  readonly door?: DoorState
  readonly listen?: ListenMode
  readonly runtime?: ServerRuntime
  readonly way?: Way
  readonly ingress?: DoorState
}

const inputs = ({
  secret,
  apiKey = known,
  door = open,
  listen = 'gateway',
  warning,
  way = 'direct',
  ingress = open,
  ...given
}: Given): ReachInputs => ({
  key: 'ns/a',
  address: { ip: 'ip' in given ? given.ip : ip, message: '', ...(warning !== undefined && { warning }) },
  apiKeySecret: secret,
  runtime: given.runtime,
  rooms: {
    apiKeys: { stateOf: () => apiKey, want: () => undefined, forget: () => undefined },
    door: () => door,
    ingress: { state: ingress, port: 9443 },
    publisher: { wayFor: () => way },
    settings: { listen: () => listen } as ReachInputs['rooms']['settings'],
  },
})

describe('a server is reached at the published address', () => {
  test.each<[string, string, Given, string | undefined]>([
    ['by everybody where it listens everywhere', '0.0.0.0', {}, undefined],
    ['where it listens there itself', ip, {}, undefined],
    ['never where it listens at another one', '10.0.0.2', {}, 'misplaced NoHostAddress'],
    ['of IPv6 where it listens at addresses of both kinds', '::', { ip: 'fd00::20' }, undefined],
    ['of IPv4 where it listens at addresses of both kinds', '::', {}, undefined],
    ['of IPv6 where it listens there itself', 'fd00::20', { ip: 'fd00::20' }, undefined],
    ['never of IPv6 where it listens at those of IPv4', '0.0.0.0', { ip: 'fd00::20' }, 'misplaced NoHostAddress'],
    ['through the gateway where it listens on this machine', '127.0.0.1', {}, undefined],
    ['not before that listens', '127.0.0.1', { door: closed }, 'closed NoGateway'],
    ['perhaps while that is asked', '127.0.0.1', { door: { kind: 'unknown', message: 'x' } }, 'unknown NoGateway'],
    ['through the gateway by who has the key', '127.0.0.1', { secret: 's' }, undefined],
    [
      'by nobody without one',
      '127.0.0.1',
      { secret: 's', apiKey: { kind: 'unusable', message: 'x' } },
      'closed NoApiKey',
    ],
    [
      'perhaps while it is read',
      '127.0.0.1',
      { secret: 's', apiKey: { kind: 'unknown', message: 'x' } },
      'unknown NoApiKey',
    ],
    ['by too many where it asks for one and listens there itself', ip, { secret: 's' }, 'exposed NoApiKey'],
    ['by the relay wherever it listens', '10.0.0.2', { way: 'relay', door: closed }, undefined],
    ['not by the relay before the ingress listens', '127.0.0.1', { way: 'relay', ingress: closed }, 'closed NoGateway'],
    ['or everywhere beside the relay', '0.0.0.0', { way: 'relay', secret: 's' }, 'exposed NoApiKey'],
    ['or everywhere, even where no address is published', '0.0.0.0', { secret: '', ip: undefined }, 'exposed NoApiKey'],
  ])('%s', (_what, host, given, expected) => {
    const found = unreached({ host, port: 1 }, inputs(given))
    expect(found && `${found.kind} ${found.reason}`).toBe(expected)
  })
})

describe('a server is not started', () => {
  test.each<[string, Given, string | undefined]>([
    ['unless it is of use: all', { listen: 'all', warning: 'not here' }, undefined],
    ['unless it is of use: published', { listen: 'published' }, undefined],
    ['unless it is of use: gateway', { listen: 'gateway', secret: 's' }, undefined],
    ['where nothing can listen at the address', { listen: 'published', warning: 'not here' }, 'NoHostAddress'],
    ['nor the gateway', { listen: 'gateway', warning: 'not here' }, 'NoHostAddress'],
    ['where it asks for a key and would be open without: all', { listen: 'all', secret: 's' }, 'NoApiKey'],
    ['where it asks for a key and would be open without: published', { listen: 'published', secret: '' }, 'NoApiKey'],
    [
      'but mlx-lm, which is behind the gateway in every mode',
      { listen: 'all', secret: '', runtime: 'mlx-lm' },
      undefined,
    ],
    [
      'mlx-lm where the address is not this machine’s',
      { listen: 'all', warning: 'Not here.', runtime: 'mlx-lm' },
      'NoHostAddress',
    ],
  ])('%s', (_what, given, expected) => {
    expect(listenObstacle(inputs(given), 0)?.reason).toBe(expected)
  })
})
