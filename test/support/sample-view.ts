import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import { createAgentView, type AgentView } from '../../src/main/agent/agent-view.ts'
import { defaultPreferences } from '../../src/main/preferences.ts'
import { sampleSnapshot } from './sample-snapshot.ts'

/** An app that runs as it should; `changes` is what a test is about. */
export function sampleView(changes: Partial<AgentView> = {}): AgentView {
  return {
    ...createAgentView('linux').getState(),
    snapshot: sampleSnapshot(),
    problem: '',
    preferences: defaultPreferences,
    contexts: {
      kubeconfig: '/home/me/.kube/config',
      contexts: [
        { name: 'lab', server: 'https://10.0.0.1:6443', inUse: true, isDefault: true },
        { name: 'minikube', server: 'https://192.168.49.2:8443', inUse: false, isDefault: false },
        { name: 'prod-eu', server: 'https://eu.example.com:6443', inUse: false, isDefault: false },
      ],
    },
    hostAddresses: {
      automatic: true,
      message: 'Published as 192.168.1.20 (en0).',
      addresses: [
        { address: '192.168.1.20', interface: 'en0', inUse: true },
        { address: '100.64.0.10', interface: 'utun4', inUse: false },
        { address: '127.0.0.1', interface: 'lo0', inUse: false, unfit: 'no other machine can answer to it' },
        { address: 'fe80::1', interface: 'en0', inUse: false, unfit: 'not IPv4' },
      ],
    },
    ...changes,
  }
}

export const withSnapshot = (changes: Partial<AgentSnapshot>, rest: Partial<AgentView> = {}): AgentView =>
  sampleView({ snapshot: sampleSnapshot(changes), ...rest })
