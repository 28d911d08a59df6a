import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Check, Patient } from '../../src/agent-core/doctor/doctor.ts'
import { examine } from '../../src/agent-core/doctor/doctor.ts'
import { KubeconfigError } from '../../src/agent-core/kube/kubeconfig.ts'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { agentSettings, type AgentSettings } from '../../src/agent-core/settings/settings.ts'
import type { DoctorFinding } from '../../src/contract/doctor.ts'

export type StatedPatient = Partial<Omit<Patient, 'settings'>> & { readonly settings?: Partial<AgentSettings> }

/** This machine without an agent and without a kubeconfig, but for what is stated. */
export function patientOf({ settings, ...stated }: StatedPatient = {}): Patient {
  const folder = join(tmpdir(), 'mb-doctor')
  return {
    platform: hostPlatform(),
    env: { PATH: process.env['PATH'], HOME: folder },
    settings: agentSettings.parse({ stateDir: folder, modelStore: join(folder, 'models'), ...settings }),
    context: () => Promise.reject(new KubeconfigError('There is no kubeconfig.')),
    runtimes: () => Promise.resolve([]),
    powerRule: () => Promise.resolve({ state: 'notHere', file: '', rule: '' }),
    hostAddress: () => Promise.resolve({ kind: 'none', message: 'There is no network interface.', rejected: [] }),
    isOwnGateway: () => Promise.resolve(false),
    agent: undefined,
    ...stated,
  }
}

/** What these checks find, by their ids. */
export async function foundBy(
  checks: readonly Check[],
  patient: Patient,
): Promise<Readonly<Record<string, DoctorFinding>>> {
  const { findings } = await examine(patient, [['machine', checks]])
  return Object.fromEntries(findings.map((finding) => [finding.id, finding]))
}
