import type { DoctorFinding } from '../../../../src/contract/doctor.ts'
import { sampleSnapshot } from '../../sample-snapshot.ts'
import { FakeAgent } from '../fake-agent.ts'
import { every } from '../scene-services.ts'
import type { StatedScene } from './scene.ts'

const well: readonly DoctorFinding[] = [
  {
    ...{ id: 'api-server', subject: 'cluster', verdict: 'pass', page: 'operations.md#states' },
    asks: 'Does the API server of the cluster answer?',
    says: 'https://10.0.0.1:6443 is Kubernetes v1.36.3 and answered in 12 ms.',
  },
  {
    ...{ id: 'metal', subject: 'machine', verdict: 'notApplicable', page: 'install.md' },
    asks: 'Does this machine have a GPU with Metal?',
    says: 'There is no Metal on this machine: models run on its processors.',
  },
]

const troubles: readonly DoctorFinding[] = [
  {
    ...{ id: 'sleep', subject: 'machine', verdict: 'warn', page: 'operations.md#sleep-and-battery' },
    asks: 'Does this machine stay awake for requests?',
    says: 'This machine goes to sleep after 10 min without use, and then misses the first request.',
    action: {
      text: 'If this machine is a server, never let it go to sleep on mains power.',
      shell: 'sudo pmset -c sleep 0',
    },
  },
  {
    ...{ id: 'firewall', subject: 'machine', verdict: 'fail', page: 'security.md#who-can-reach-a-model' },
    asks: 'Does the macOS firewall let Pods reach the runtimes?',
    says: 'The firewall does not let Pods reach /opt/homebrew/Cellar/llama.cpp/9430/bin/llama-server.',
    action: {
      text: 'Allow these programs, then look again.',
      shell:
        'sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add /opt/homebrew/Cellar/llama.cpp/9430/bin/llama-server',
    },
  },
  {
    ...{ id: 'agent', subject: 'agent', verdict: 'warn', page: 'operations.md#as-a-service' },
    asks: 'Is an agent running here?',
    says: 'metal-agent v0.1.0 has run for 12 min, and a person has paused it: no requests are sent here.',
    action: {
      text: 'Resume this machine.',
      shell: 'metal-agent resume',
      fix: { label: 'Resume', command: { name: 'resumeNode' } },
    },
  },
]

const finding = (findings: readonly DoctorFinding[]) => () => {
  const agent = new FakeAgent(sampleSnapshot({ services: every }))
  agent.known.doctor = { findings: [...findings], tookMs: 1_230 }
  agent.known.unserved = {
    services: [
      {
        ...{ namespace: 'default', name: 'whisper-large', isForOthers: true },
        message: 'Model whisper-large asks for the accelerator cuda, not metal.',
      },
    ],
    hasMore: false,
  }
  agent.known.fromCluster = {
    hop: 'timedOut',
    isReached: false,
    says: 'What a Pod sends to 192.168.1.20:50001 gets no answer: a firewall of this machine drops it, a NetworkPolicy of the cluster does, or there is no way from its nodes to this address.',
  }
  agent.known.diagnostics = {
    files: [
      { name: 'about.json', text: '{}' },
      { name: 'servers/default-phi-4-mini.log', text: 'x'.repeat(40_000) },
    ],
  }
  return agent
}

export const helpScenes = {
  help: {
    says: [
      'Nothing is changed before you agree.',
      '1 in order, 2 warnings, 1 failure, 1 not applicable.',
      'The firewall does not let Pods reach /opt/homebrew/Cellar/llama.cpp/9430/bin/llama-server.',
      'sudo pmset -c sleep 0',
      'Resume',
      'Read more',
      '2 checks without a problem',
    ],
    agent: finding([...well, ...troubles]),
    view: 'help',
    height: 1_100,
  },
  'help-well': {
    says: ['No problem was found.', 'answered in 12 ms.', 'Not applicable'],
    agent: finding(well),
    view: 'help',
    unfold: ['2 checks without a problem'],
  },
  'help-looking': {
    says: ['Checking this machine and its cluster. This takes up to ten seconds.', 'Look again'],
    agent: () => {
      const agent = finding(well)()
      agent.held.add('doctor')
      return agent
    },
    view: 'help',
  },
  'help-report': {
    says: ['Report to send', 'servers/default-phi-4-mini.log', '40.0 kB', 'Save as a zip file'],
    agent: finding(well),
    view: 'help',
    press: ['Collect…'],
  },
  'help-pod': {
    says: ['Test from inside the cluster', 'gets no answer: a firewall of this machine drops it'],
    agent: finding(well),
    view: 'help',
    unfold: ['Test from inside the cluster'],
    press: ['Test from a Pod: phi-4-mini'],
    height: 900,
  },
  'help-unserved': {
    says: ['default/whisper-large', 'asks for the accelerator cuda'],
    agent: finding(well),
    view: 'help',
    unfold: ['1 service that this machine does not serve now'],
  },
  'help-narrow': {
    says: ['Does the macOS firewall let Pods reach the runtimes?'],
    agent: finding([...well, ...troubles]),
    view: 'help',
    width: 400,
    height: 1_100,
    textScale: 1.5,
  },
} as const satisfies Readonly<Record<string, StatedScene>>
