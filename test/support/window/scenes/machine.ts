import { LinkError } from '../../../../src/contract/client.ts'
import { sampleSnapshot } from '../../sample-snapshot.ts'
import { FakeAgent } from '../fake-agent.ts'
import { withServices } from '../scene-agents.ts'
import { every, held, paused, ready } from '../scene-services.ts'
import type { StatedScene } from './scene.ts'

const cluster = sampleSnapshot().cluster

export const machineScenes = {
  connecting: {
    says: ['Connecting to the agent…'],
    agent: () => new FakeAgent(),
  },
  'no-agent': {
    says: ['No agent answers', 'start one with metal-agent', 'Next try', 'Try now'],
    agent: () => {
      const agent = new FakeAgent()
      agent.leave(new LinkError('gone', 'No agent answers on this computer: start one with `metal-agent`.'))
      return agent
    },
  },
  'no-access': {
    says: ['No access to the agent', 'run metal-agent ui for a new one'],
    agent: () => {
      const agent = new FakeAgent()
      agent.leave(new LinkError('refused', 'The address was used before: run `metal-agent ui` for a new one.'))
      return agent
    },
  },
  stale: {
    says: ['No agent', 'The agent ended.', 'What you see is from', 'Try now', 'phi-4-mini'],
    agent: withServices(every),
    then: (agent) => agent.leave(),
  },
  'cluster-away': {
    says: ['Stale', 'connection refused', 'This has lasted 2 min. Next try', 'phi-4-mini'],
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [ready, held],
          cluster: {
            ...cluster,
            state: 'stale',
            message: 'The API server at https://10.0.0.1:6443 does not answer: connection refused.',
            since: '2026-01-02T03:02:05.000Z',
            retryAt: '2026-01-02T03:04:17.000Z',
          },
        }),
      ),
  },
  paused: {
    says: ['This machine is paused', 'Resume', 'There is no Metal on this machine'],
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [paused],
          host: { ...sampleSnapshot().host, paused: true },
          notices: ['There is no Metal on this machine: models run on its processors.'],
        }),
      ),
  },
  'on-battery': {
    says: ['on battery, 84 %, Low Power Mode'],
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [ready],
          supply: { source: 'battery', charge: 0.84, lowPowerMode: true, isKeptAwake: false },
        }),
      ),
  },
  'no-address': {
    says: ['No address', 'choose one with --host-ip'],
    agent: () => {
      const { address: _address, ...host } = sampleSnapshot().host
      const message = 'No address of this machine can be reached from a cluster: choose one with --host-ip.'
      return new FakeAgent(sampleSnapshot({ services: [ready], host: { ...host, message } }))
    },
  },
} satisfies Record<string, StatedScene>
