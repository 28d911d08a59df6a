import type { LoginItemState } from '../../contract/app-state.ts'
import type { AgentLink } from '../../contract/client.ts'
import type { DoctorFinding } from '../../contract/doctor.ts'
import type { Answer, QueryName } from '../../contract/queries.ts'
import { doctorWords } from '../words.ts'

/** What only the app knows of itself. */
export interface AppFacts {
  readonly loginItem: LoginItemState
  /** It runs the agent in its own process; else a service does, which needs no app. */
  readonly isHere: boolean
  /** `unknown`: the system does not say. */
  readonly icon: 'shown' | 'hidden' | 'unknown'
}

type Answered = Pick<DoctorFinding, 'verdict' | 'says' | 'action'>

const { loginItem: says } = doctorWords

const loginItem: Readonly<Record<LoginItemState, Answered>> = {
  enabled: { verdict: 'pass', says: says.enabled },
  'requires-approval': {
    ...{ verdict: 'warn', says: says['requires-approval'] },
    action: {
      text: doctorWords.allowLoginItem,
      shell: "open 'x-apple.systempreferences:com.apple.LoginItems-Settings.extension'",
    },
  },
  'not-registered': {
    verdict: 'warn',
    says: says['not-registered'],
    action: { text: doctorWords.switchOn },
  },
  unavailable: { verdict: 'notApplicable', says: says.unavailable },
}

const icons: Readonly<Record<AppFacts['icon'], Answered>> = {
  shown: { verdict: 'pass', says: doctorWords.icons.shown },
  hidden: { verdict: 'warn', says: doctorWords.icons.hidden, action: { text: doctorWords.makeRoom } },
  unknown: { verdict: 'notApplicable', says: doctorWords.icons.unknown },
}

/** What the app asks itself, as the doctor answers. */
export const appFindings = ({ loginItem: state, isHere, icon }: AppFacts): DoctorFinding[] => [
  {
    ...{ id: 'login-item', subject: 'app', page: 'operations.md#as-a-service', asks: doctorWords.restart },
    ...(isHere ? loginItem[state] : { verdict: 'notApplicable', says: doctorWords.service }),
  },
  {
    ...{ id: 'icon', subject: 'app', page: 'troubleshooting.md#the-icon-is-hidden', asks: doctorWords.icon },
    ...icons[icon],
  },
]

/** The agent for its window, whose doctor and whose report to send know of the app too. */
export const withAppFindings = (link: AgentLink, found: () => readonly DoctorFinding[]): AgentLink => ({
  ...link,
  query: async (query, signal) => withFindings(query.name, await link.query(query, signal), found) as never,
})

function withFindings(name: QueryName, answer: Answer, found: () => readonly DoctorFinding[]): Answer {
  // Each query is answered by its own kind of answer.
  switch (name) {
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
