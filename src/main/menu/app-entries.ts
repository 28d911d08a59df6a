import type { AgentView } from '../agent-view.ts'
import { line, text, type MenuEntry } from './entries.ts'

/** Whether it is opened at login, as macOS says; nothing where it cannot be. */
export function loginItemEntries({ loginItem }: AgentView): MenuEntry[] {
  if (loginItem === 'unavailable') return []
  if (loginItem === 'requires-approval') {
    return [
      line(
        'Open at login: to be allowed in System Settings…',
        { kind: 'openPane', pane: 'loginItems' },
        { toolTip: 'macOS asks that you allow it under General, Login Items.' },
      ),
    ]
  }
  const isOn = loginItem === 'enabled'
  return [line('Open at login', { kind: 'loginItem', isOn: !isOn }, { isChecked: isOn })]
}

/** Said once, until the app ends or it is done. */
export function loginOfferEntries({ offersLoginItem, loginItem }: AgentView): MenuEntry[] {
  if (!offersLoginItem || loginItem !== 'not-registered') return []
  return [
    line(
      'Open Metalbar at login',
      { kind: 'loginItem', isOn: true },
      { toolTip: 'Then this Mac serves its models after a restart too. Later it is under This app.' },
    ),
  ]
}

/** Another program runs the agent: this app shows it, or takes its place. */
export function takeOverEntries({ isHere, isQuitting }: AgentView): MenuEntry[] {
  if (isHere || isQuitting) return []
  return [
    text('A metal-agent runs this node; this app shows it'),
    line('Run the agent in this app…', { kind: 'takeOver' }, { toolTip: 'What serves goes on. You are asked first.' }),
  ]
}
