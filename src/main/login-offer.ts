import type { LoginItemState } from '../contract/app-bridge.ts'
import type { AgentView } from './agent-view.ts'
import type { News } from './notifications/news.ts'

/** Once, when the first model serves: then a person knows what the app is for. */
export const isLoginOfferDue = ({ snapshot, preferences }: AgentView, loginItem: LoginItemState): boolean =>
  preferences?.loginItemOffered === false &&
  loginItem === 'not-registered' &&
  snapshot?.services.some(({ state }) => state === 'ready') === true

/** The menu says the same until the app ends, and has it under This app from then on. */
export const loginOffer: News = {
  id: 'login item',
  title: 'Open Metalbar at login?',
  body: 'Then this Mac serves its models after a restart too. The menu has it under This app.',
  click: { kind: 'open', at: { view: 'settings' } },
  action: { label: 'Open at login', deed: { kind: 'loginItem', isOn: true } },
}
