import { LinkError } from '../../../../src/contract/client.ts'
import { answering, refusal, withServices } from '../scene-agents.ts'
import { withDeletion, withWays } from '../scene-additions.ts'
import { every, evicted, fetching, held, longest, ready, starting, stopping } from '../scene-services.ts'
import type { StatedScene } from './scene.ts'

export const serviceScenes = {
  services: {
    says: [
      'Ready',
      'Downloading',
      'Starting',
      'Not ready',
      'Crash loop',
      'Refused',
      'Stopping',
      'Stopped',
      'Waiting',
      'Not started',
      'Waiting for first answer',
      'Not healthy',
      'Next: Fetched',
      'On another machine',
      '42 % · 7.9 GB of 18.6 GB · 61.0 MB/s · 2 min left',
      'The machine "mini" serves it.',
    ],
    agent: withServices(every),
  },
  'services-wide': {
    says: ['phi-4-mini', 'Choose a service to see its steps'],
    agent: withServices(every),
    width: 1_100,
    height: 760,
  },
  'large-text': {
    says: ['phi-4-mini', 'Downloading', 'Live', '192.168.1.20'],
    agent: withServices(every),
    textScale: 2,
  },
  'long-names': {
    says: ['phi-4-mini', 'version-2'],
    agent: withServices([longest, ready]),
  },
  'long-names-detail': {
    says: ['with-a-very-long-name-version-2', 'Stop'],
    agent: withServices([longest]),
    open: longest.name,
  },
  download: {
    says: ['7.9 GB of 18.6 GB · 61.0 MB/s · 2 min left', 'Cancel download', 'not running'],
    agent: withServices([fetching]),
    open: 'qwen3-30b-a3b',
  },
  starting: {
    says: [
      ...['Process 4712.', 'The server is loading the model.', 'Cluster agrees', 'not yet'],
      ...['Draft model', 'gemma-3-1b'],
    ],
    agent: withServices([{ ...starting, draft: 'gemma-3-1b' }]),
    open: 'gemma-3-12b',
  },
  draining: {
    says: ['Waiting for 2 requests to finish.'],
    agent: withServices([stopping]),
    open: 'smollm-360m',
  },
  evicted: {
    says: ['which was critically short', 'It comes back automatically', 'Bring back'],
    agent: withServices([evicted]),
    open: 'deepseek-r1-8b',
  },
  'other-machine': {
    says: [
      'Served by another machine since',
      ', for 3 min.',
      'The machine "mini" serves it.',
      'takes over if that machine releases it',
    ],
    agent: withServices(every),
    open: 'codestral',
  },
  hold: {
    says: ['the cluster did not take the change', 'Held on this machine since', ', for 14 min.', 'Start'],
    agent: withServices([held]),
    open: 'nomic-embed',
  },
  'stop-pending': {
    says: ['Stopping…'],
    agent: withServices([ready]),
    open: 'phi-4-mini',
    press: ['Stop'],
  },
  'stop-refused': {
    says: ['The cluster refused', 'user "me" cannot patch it', 'Hold it on this machine'],
    agent: answering([refusal]),
    open: 'phi-4-mini',
    press: ['Stop'],
  },
  'stop-unknown': {
    says: ['It is not known whether this was done.', 'Try again'],
    agent: answering([new LinkError('gone', 'The agent went away before it answered.')]),
    open: 'phi-4-mini',
    press: ['Stop'],
  },
  'does-not-fit': {
    says: [
      'Does not fit',
      'It needs 43.9 GB, and 26.4 GB are left in the budget of 72.0 GB.',
      'Use 4,096 tokens',
      'longer conversations are cut off',
      'Evict llama-3.3-70b: frees 25.8 GB.',
      'llama-3.3-70b is evicted here',
      'Quit Xcode',
      'Raise the budget to 90.0 GB',
      'instead of 72.0 GB',
      'It is the next to start.',
    ],
    agent: withWays([]),
    open: 'llama-70b',
    height: 980,
  },
  'evicted-for-it': {
    says: ['default/llama-3.3-70b is evicted', 'Undo'],
    agent: withWays([{ outcome: 'done', message: 'default/llama-3.3-70b is evicted until it is brought back.' }]),
    open: 'llama-70b',
    press: ['Evict llama-3.3-70b'],
  },
  delete: {
    says: ['is deleted in the cluster', 'is deleted with it', 'Delete phi-4-mini', 'Keep'],
    agent: withDeletion,
    open: 'phi-4-mini',
    press: ['Delete phi-4-mini…'],
  },
} satisfies Record<string, StatedScene>
