import { expect, test } from 'vitest'
import { parseEndpointSlice } from '../../../src/agent-core/kube/resources.ts'
import { annotations } from '../../../src/agent-core/publishing/objects.ts'
import { isOnlyHeartbeat } from '../../../src/agent-core/publishing/publisher.ts'

interface Facts {
  readonly beat?: string
  readonly node?: string
  readonly ready?: boolean
  readonly version?: string
  readonly claimBeat?: string
}

const slice = ({ beat = 'T1', node = 'me', ready = true, version = '1', claimBeat = beat }: Facts = {}) =>
  parseEndpointSlice({
    metadata: {
      name: 'a',
      namespace: 'ns',
      uid: 'u',
      resourceVersion: version,
      annotations: {
        [annotations.heartbeat]: beat,
        [annotations.claim]: JSON.stringify({ node, epoch: 1, heartbeat: claimBeat }),
      },
      managedFields: [{ manager: 'metalbar', time: beat }],
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready } }],
    ports: [{ name: 'http', port: 5001 }],
  })

test.each([
  ['a renewal of the same claim', slice({ beat: 'T2', version: '2' }), true],
  ['another holder', slice({ beat: 'T2', node: 'you', version: '2' }), false],
  ['a withdrawal', slice({ beat: 'T2', ready: false, version: '2' }), false],
  ['a heartbeat of an agent that knows no claims', slice({ beat: 'T2', claimBeat: 'T1', version: '2' }), false],
  ['a deletion', undefined, false],
])('%s is nothing but a heartbeat: %s', (_what, after, expected) => {
  expect(isOnlyHeartbeat(slice(), after)).toBe(expected)
})
