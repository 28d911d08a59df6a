import type { ReactNode } from 'react'
import { Button } from '../components/button.tsx'
import { sectionOf, sectionOfStart, settingSections, type SettingSection } from '../setting-sections.ts'
import { changedIn, patchOfDraft, previewOfDraft, textIn, withoutSent, withWritten } from '../settings-draft.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { settingWords } from '../words/settings/settings.ts'
import { Answer } from './answer.tsx'
import { MemoryPreview } from './memory-preview.tsx'
import { MemorySlider } from './memory-slider.tsx'
import { SettingField } from './setting-field.tsx'
import styles from './settings.module.css'
import { SettingsCluster } from './settings-cluster.tsx'
import { SettingsGeneral } from './settings-general.tsx'
import { SettingsModels } from './settings-models.tsx'
import { SettingsNetwork } from './settings-network.tsx'
import { SettingsPower } from './settings-power.tsx'
import { SettingsRuntimes } from './settings-runtimes.tsx'
import { StartSetting } from './start-setting.tsx'
import { Note, ViewPage } from './view-page.tsx'

const about = 'settings'

/** What a section shows before its settings. */
const places: Readonly<Partial<Record<SettingSection, () => ReactNode>>> = {
  cluster: SettingsCluster,
  network: SettingsNetwork,
  runtimes: SettingsRuntimes,
  models: SettingsModels,
  power: SettingsPower,
  general: SettingsGeneral,
}

/** Every setting of the agent. What a person writes is a draft until it is applied. */
export function Settings() {
  const request = useWindow(({ requests }) => requests[about])
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const ask = useWindow((state) => state.ask)
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const { answer, problem } = useAnswer({ name: 'settings' }, [request?.state, revision])
  const draft = useWindow((state) => state.draft)
  const write = useWindow((state) => state.write)
  const views = answer?.settings ?? []
  const changed = changedIn(draft, views)
  const result = patchOfDraft(changed)
  const problems = result.ok ? [] : result.problems
  const count = Object.keys(changed).length
  const preview = previewOfDraft(changed)
  const hasBytes = views.some((view) => view.name === 'memoryBudgetBytes' && textIn(changed, view) !== '')
  const scaleOf = (text: string, onChange: (text: string) => void) => (
    <MemorySlider
      fraction={Number(text) || 0}
      isOverruled={hasBytes}
      onChange={(fraction) => onChange(String(Number(fraction.toFixed(2))))}
    />
  )
  const apply = async () => {
    if (!result.ok) return
    if (!(await ask(about, { name: 'updateSettings', settings: result.patch }))) return
    write((now) => withoutSent(now, draft))
  }
  return (
    <ViewPage id="settings" title={settingWords.title}>
      <Note>{problem}</Note>
      {settingSections.map((section) => {
        const Place = places[section]
        const started = answer?.start.filter((view) => sectionOfStart(view) === section) ?? []
        return (
          <Section key={section} section={section}>
            {Place !== undefined && <Place />}
            {views
              .filter((view) => sectionOf(view) === section)
              .map((view) => (
                <SettingField
                  key={view.name}
                  view={view}
                  written={changed[view.name]}
                  isPending={request?.state === 'pending'}
                  problem={problems.includes(view.name) ? settingWords.problem(view.name) : undefined}
                  {...(view.name === 'memoryFraction' && { scale: scaleOf })}
                  {...(view.name === preview?.below && { preview: <MemoryPreview settings={preview.settings} /> })}
                  onChange={(text) => write((before) => withWritten(before, view, text))}
                />
              ))}
            {started.length > 0 && (
              <>
                <h4 className={styles['started']}>{settingWords.fromStart}</h4>
                <ul>
                  {started.map((view) => (
                    <StartSetting key={view.name} view={view} startFile={answer?.startFile} />
                  ))}
                </ul>
              </>
            )}
          </Section>
        )
      })}
      <div className={styles['apply']}>
        <Answer about={about} />
        <div className={styles['buttons']}>
          <span className={styles['changes']} role="status">
            {settingWords.changes(count, problems.length)}
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

function Section({ section, children }: { readonly section: SettingSection; readonly children: ReactNode }) {
  const name = settingWords.sections[section]
  return (
    <div role="group" className={styles['group']} aria-label={name}>
      <h3 className={styles['name']}>{name}</h3>
      <div className={styles['fields']}>{children}</div>
    </div>
  )
}
