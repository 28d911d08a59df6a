import type { AppBridge } from '../../contract/app-bridge.ts'
import { Button } from '../components/button.tsx'
import { ChoiceRow } from '../components/choice-row.tsx'
import { SwitchRow } from '../components/switch-row.tsx'
import { useApp } from '../store.ts'
import { useAppState } from '../use-app-state.ts'
import { appWords } from '../words/settings/app.ts'
import { SettingsUpdates } from './settings-updates.tsx'
import styles from './settings-places.module.css'
import { Uninstall } from './uninstall.tsx'

/** What concerns the app beside its agent. Each choice counts at once; a page in a browser has nothing of it. */
export function SettingsGeneral() {
  const app = useApp()
  return app === undefined ? null : <General app={app} />
}

function General({ app }: { readonly app: AppBridge }) {
  const { state, problem, take } = useAppState(app)
  if (state === undefined) return problem === undefined ? null : <p className={styles['place']}>{problem}</p>
  const { loginItem, preferences } = state
  return (
    <div className={styles['place']}>
      {problem !== undefined && <p role="alert">{problem}</p>}
      <SwitchRow
        title={appWords.loginItem}
        help={appWords.loginItems[loginItem]}
        isOn={loginItem === 'enabled' || loginItem === 'requires-approval'}
        disabled={loginItem === 'unavailable'}
        onChange={(isOn) => void take(app.setLoginItem(isOn))}
      />
      {loginItem === 'requires-approval' && (
        <div>
          <Button onPress={() => void take(app.openPane('loginItems'))}>{appWords.openLoginItems}</Button>
        </div>
      )}
      {preferences === undefined ? (
        <p className={styles['note']}>{appWords.noPreferences}</p>
      ) : (
        <>
          <ChoiceRow
            title={appWords.onQuit}
            help={appWords.onQuitHelp}
            words={appWords.onQuits}
            value={preferences.onQuit}
            onChange={(onQuit) => void take(app.prefer({ onQuit }))}
          />
          <SwitchRow
            title={appWords.notifications}
            help={appWords.notificationsHelp}
            isOn={preferences.notifications}
            onChange={(notifications) => void take(app.prefer({ notifications }))}
          />
          <div>
            <Button look="plain" onPress={() => void take(app.openPane('notifications'))}>
              {appWords.openNotifications}
            </Button>
          </div>
          <SwitchRow
            title={appWords.showTitle}
            help={appWords.showTitleHelp}
            isOn={preferences.showTitle}
            onChange={(showTitle) => void take(app.prefer({ showTitle }))}
          />
        </>
      )}
      <SettingsUpdates app={app} state={state} take={take} />
      <Uninstall app={app} />
    </div>
  )
}
