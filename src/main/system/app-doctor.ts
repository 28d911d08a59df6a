import type { LoginItemState } from '../../contract/app-bridge.ts'
import type { DoctorFinding } from '../../contract/doctor.ts'
import type { Answer, Query } from '../../contract/queries.ts'

/** What only the app knows of itself. */
export interface AppFacts {
  readonly loginItem: LoginItemState
  /** It runs the agent in its own process; else a service does, which needs no app. */
  readonly isHere: boolean
  /** `unknown`: the system does not say. */
  readonly icon: 'shown' | 'hidden' | 'unknown'
}

type Answered = Pick<DoctorFinding, 'verdict' | 'says' | 'action'>

const loginItem: Readonly<Record<LoginItemState, Answered>> = {
  enabled: { verdict: 'pass', says: 'Metalbar opens at login.' },
  'requires-approval': {
    ...{ verdict: 'warn', says: 'Metalbar should open at login, and macOS waits for your permission.' },
    action: {
      text: 'Allow it in System Settings, General, Login Items.',
      shell: "open 'x-apple.systempreferences:com.apple.LoginItems-Settings.extension'",
    },
  },
  'not-registered': {
    verdict: 'warn',
    says: 'Metalbar does not open at login, so nothing is served after a restart until somebody opens it.',
    action: { text: 'Switch on Open at login, in Settings or in the menu of the icon.' },
  },
  unavailable: { verdict: 'notApplicable', says: 'Only an app that is installed can be opened at login.' },
}

const icons: Readonly<Record<AppFacts['icon'], Answered>> = {
  shown: { verdict: 'pass', says: 'It is in the menu bar.' },
  hidden: {
    verdict: 'warn',
    says: 'macOS has no room for it in the menu bar, or it is behind the camera of the display.',
    action: {
      text: 'End apps whose icons you do not need, or move theirs with the Command key held; opening Metalbar once more opens its window.',
    },
  },
  unknown: { verdict: 'notApplicable', says: 'This system does not say where icons are.' },
}

/** What the app asks itself, as the doctor answers. */
export const appFindings = ({ loginItem: state, isHere, icon }: AppFacts): DoctorFinding[] => [
  {
    ...{ id: 'login-item', subject: 'app', page: 'service.md', asks: 'Does the agent come back after a restart?' },
    ...(isHere
      ? loginItem[state]
      : {
          verdict: 'notApplicable',
          says: 'A system service starts the agent, with or without this app.',
        }),
  },
  {
    ...{
      id: 'icon',
      subject: 'app',
      page: 'troubleshooting.md#the-icon-is-hidden',
      asks: 'Can the icon of Metalbar be seen?',
    },
    ...icons[icon],
  },
]

/** The answer of the agent to its window, whose doctor and whose report to send know of the app too. */
export function withAppFindings(query: Query, answer: Answer, found: () => readonly DoctorFinding[]): Answer {
  // Each query is answered by its own kind of answer.
  switch (query.name) {
    case 'doctor': {
      const report = answer as Answer<'doctor'>
      return { ...report, findings: [...found(), ...report.findings] }
    }
    case 'diagnostics': {
      const { files } = answer as Answer<'diagnostics'>
      return { files: [...files, { name: 'app.json', text: `${JSON.stringify(found(), null, 2)}\n` }] }
    }
    default:
      return answer
  }
}
