import type { SettingName, SettingView } from '../../contract/settings.ts'
import { Button } from '../components/button.tsx'
import { inSections, patchOfDraft, textOf, withoutSent, type Draft } from '../settings-draft.ts'
import { useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { settingWords } from '../words/views.ts'
import { Answer } from './answer.tsx'
import { SettingField } from './setting-field.tsx'
import styles from './settings.module.css'
import { Note, ViewPage } from './view-page.tsx'

const about = 'settings'

/** Every setting that may change while the agent runs. What a person writes is a draft until it is applied. */
export function Settings() {
  const request = useWindow(({ requests }) => requests[about])
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const ask = useWindow((state) => state.ask)
  const { answer, problem } = useAnswer({ name: 'settings' }, [request?.state])
  const draft = useWindow((state) => state.draft)
  const write = useWindow((state) => state.write)
  const views = answer?.settings ?? []
  const changed = changedIn(draft, views)
  const result = patchOfDraft(changed)
  const problems = result.ok ? {} : result.problems
  const count = Object.keys(changed).length
  const apply = async () => {
    if (!result.ok) return
    if (!(await ask(about, { name: 'updateSettings', settings: result.patch }))) return
    write((now) => withoutSent(now, draft))
  }
  return (
    <ViewPage id="settings" title={settingWords.title}>
      <Note>{problem}</Note>
      {inSections(views).map(({ group, settings }) => (
        <div key={group} role="group" className={styles['group']} aria-label={group}>
          <h3 className={styles['name']}>{group}</h3>
          <div className={styles['fields']}>
            {settings.map((view) => (
              <SettingField
                key={view.name}
                view={view}
                draft={draft[view.name]}
                problem={problems[view.name]}
                onChange={(text) => write((before) => ({ ...before, [view.name]: text }))}
              />
            ))}
          </div>
        </div>
      ))}
      <div className={styles['apply']}>
        <Answer about={about} />
        <div className={styles['buttons']}>
          <span className={styles['changes']} role="status">
            {settingWords.changes(count, Object.keys(problems).length)}
          </span>
          <Button disabled={count === 0} onPress={() => write(() => ({}))}>
            {settingWords.revert}
          </Button>
          <Button
            look="prominent"
            disabled={count === 0 || !result.ok || !connected}
            pending={request?.state === 'pending'}
            onPress={() => void apply()}
          >
            {settingWords.apply}
          </Button>
        </div>
      </div>
    </ViewPage>
  )
}

/** Without what says again what is so already. */
function changedIn(draft: Draft, views: readonly SettingView[]): Draft {
  const isChange = ({ name, from }: SettingView, text: string | null) =>
    text === null
      ? from === 'person'
      : text !== textOf(views.find((view) => view.name === name) ?? { name, value: null })
  const entries = views.flatMap((view): [SettingName, string | null][] => {
    const text = draft[view.name]
    return text !== undefined && isChange(view, text) ? [[view.name, text]] : []
  })
  return Object.fromEntries(entries)
}
